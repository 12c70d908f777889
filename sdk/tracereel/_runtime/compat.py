"""Private names of dependencies that have no public counterpart.

`tests/sdk/runtime/test_compat.py` checks each against the installed versions.
"""

from asyncio import _get_running_loop as running_loop_or_none

from opentelemetry import context as otel_context
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)

__all__ = ["running_loop_or_none", "uninstrumented_context"]


def uninstrumented_context() -> otel_context.Context:
    """Return a context in which instrumentations of HTTP clients record nothing."""
    context = otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)
    return otel_context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, context)
