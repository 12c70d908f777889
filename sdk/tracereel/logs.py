"""Log lines of events, and trace ids on the program's log lines."""

import logging
from collections.abc import MutableMapping
from typing import Any, Final

from opentelemetry import trace

from tracereel._core import context, remote_identity
from tracereel._runtime import guard
from tracereel._telemetry.event_log import LOGGER_NAME, configure_logs

__all__ = [
    "CONTEXT_KEYS",
    "LOGGER_NAME",
    "TraceContextFilter",
    "add_trace_context",
    "configure_logs",
    "trace_context",
]

CONTEXT_KEYS: Final = ("trace_id", "span_id", "request_id", "agent_name")
"""Fields that the filter adds to every record."""


def trace_context() -> dict[str, str]:
    """Return the ids of the current execution, else of the current span or remote caller."""
    found: dict[str, str] = {}
    execution = context.current_execution()
    span = trace.get_current_span().get_span_context()
    if execution is not None:
        found["trace_id"], found["span_id"] = execution.trace_id, execution.span_id
        found["request_id"] = execution.request_id
        inner = execution
        while inner.kind != "agent" and inner.parent is not None:
            inner = inner.parent
        if inner.kind == "agent":
            found["agent_name"] = inner.name
        return found
    if span.is_valid:
        found["trace_id"], found["span_id"] = f"{span.trace_id:032x}", f"{span.span_id:016x}"
    if (remote := remote_identity.remote_identity()) is not None:
        if remote.trace_id is not None:
            found["trace_id"] = remote.trace_id
        if remote.request_id is not None:
            found["request_id"] = remote.request_id
    return found


def add_trace_context(
    _logger: Any, _method: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add the ids of the current execution to a structlog line (a structlog processor)."""
    with guard.Guard("logs"):
        for name, value in trace_context().items():
            event_dict.setdefault(name, value)
    return event_dict


class TraceContextFilter(logging.Filter):
    """Logging filter that adds the ids to every record; empty strings where unknown.

    Example:
        handler.addFilter(TraceContextFilter())
        handler.setFormatter(logging.Formatter("%(trace_id)s %(agent_name)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids and accept the record."""
        found: dict[str, str] = {}
        with guard.Guard("logs"):
            found = trace_context()
        for name in CONTEXT_KEYS:
            if not hasattr(record, name):
                setattr(record, name, found.get(name, ""))
        return True
