"""Private names of other packages that we use exist and behave as expected."""

import asyncio

from opentelemetry import context
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled

from tracereel._runtime.compat import running_loop_or_none, uninstrumented_context


def test_running_loop_is_none_outside_of_a_loop() -> None:
    async def inside() -> bool:
        return running_loop_or_none() is asyncio.get_running_loop()

    assert running_loop_or_none() is None
    assert asyncio.run(inside())


def test_http_instrumentations_are_off_in_an_uninstrumented_context() -> None:
    assert is_http_instrumentation_enabled()
    token = context.attach(uninstrumented_context())
    try:
        assert not is_http_instrumentation_enabled()
    finally:
        context.detach(token)
