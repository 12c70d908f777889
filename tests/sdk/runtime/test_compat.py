"""Private names of other packages that we use exist and behave as expected."""

import asyncio

from opentelemetry import context
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled

from tracereel._runtime import compat
from tracereel._runtime.compat import running_loop_or_none, uninstrumented_context


def test_running_loop_is_none_outside_of_a_loop() -> None:
    async def inside() -> bool:
        return running_loop_or_none() is asyncio.get_running_loop()

    assert running_loop_or_none() is None
    assert asyncio.run(inside())


def test_idle_loop_has_no_ready_callbacks() -> None:
    async def inside() -> tuple[bool | None, bool | None]:
        loop = asyncio.get_running_loop()
        before = compat.is_idle(loop)
        loop.call_soon(lambda: None)
        return before, compat.is_idle(loop)

    assert asyncio.run(inside()) == (True, False)


def test_next_timer_is_the_earliest_and_timeouts_are_recognized() -> None:
    async def inside() -> list[bool]:
        loop = asyncio.get_running_loop()
        assert compat.next_timer(loop) is None
        found = []
        loop.call_later(60, lambda: None)
        timer = compat.next_timer(loop)
        assert timer is not None
        found.append(compat.is_timeout(timer))
        async with asyncio.timeout(30):
            await asyncio.sleep(0)
            timer = compat.next_timer(loop)
            assert timer is not None
            found.append(compat.is_timeout(timer))
        return found

    assert asyncio.run(inside()) == [False, True]


def test_timeout_of_wait_for_is_recognized() -> None:
    async def inside() -> bool:
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(asyncio.wait_for(loop.create_future(), 30))
        await asyncio.sleep(0)
        timer = compat.next_timer(loop)
        waiting.cancel()
        return timer is not None and compat.is_timeout(timer)

    assert asyncio.run(inside())


def test_replaced_selector_is_used_by_the_loop() -> None:
    loop = asyncio.new_event_loop()
    real, used = compat.selector_of(loop), []

    class Selector:
        def select(self, timeout: float | None = None) -> object:
            used.append(timeout)
            return real.select(timeout)

    compat.set_selector(loop, Selector())
    loop.run_until_complete(asyncio.sleep(0.001))
    compat.set_selector(loop, real)
    loop.close()
    assert used


def test_executor_shutdown_of_a_loop_is_seen() -> None:
    async def inside() -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        before = compat.is_joining_threads(loop)
        await loop.shutdown_default_executor()
        return before, compat.is_joining_threads(loop)

    assert asyncio.run(inside()) == (False, True)


def test_http_instrumentations_are_off_in_an_uninstrumented_context() -> None:
    assert is_http_instrumentation_enabled()
    token = context.attach(uninstrumented_context())
    try:
        assert not is_http_instrumentation_enabled()
    finally:
        context.detach(token)
