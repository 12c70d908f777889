"""Retry loops of tenacity and stamina in every form, as functions."""

import asyncio
from collections.abc import Callable
from typing import Any

import stamina
import tenacity

from tracereel.resilience.tenacity import before_sleep

Call = Callable[[], Any]

_TENACITY: dict[str, Any] = {
    "stop": tenacity.stop_after_attempt(3),
    "wait": tenacity.wait_fixed(0.001),
    "reraise": True,
}
_STAMINA: dict[str, Any] = {
    "on": Exception,
    "attempts": 3,
    "wait_initial": 0.001,
    "wait_max": 0.001,
    "wait_jitter": 0,
}


def _later(call: Call) -> Callable[[], Any]:
    async def later() -> Any:
        return call()

    return later


def tenacity_decorator(call: Call) -> Any:
    return tenacity.retry(**_TENACITY, before_sleep=before_sleep())(call)()


def tenacity_async_decorator(call: Call) -> Any:
    return asyncio.run(tenacity.retry(**_TENACITY, before_sleep=before_sleep())(_later(call))())


def tenacity_blocks(call: Call) -> Any:
    for attempt in tenacity.Retrying(**_TENACITY, before_sleep=before_sleep()):
        with attempt:
            return call()
    raise AssertionError


def tenacity_async_blocks(call: Call) -> Any:
    async def run() -> Any:
        async for attempt in tenacity.AsyncRetrying(**_TENACITY, before_sleep=before_sleep()):
            with attempt:
                return await _later(call)()
        raise AssertionError

    return asyncio.run(run())


def stamina_decorator(call: Call) -> Any:
    return stamina.retry(**_STAMINA)(lambda: call())()


def stamina_async_decorator(call: Call) -> Any:
    return asyncio.run(stamina.retry(**_STAMINA)(_later(call))())


def stamina_context(call: Call) -> Any:
    for attempt in stamina.retry_context(**_STAMINA):
        with attempt:
            return call()
    raise AssertionError


def stamina_async_context(call: Call) -> Any:
    async def run() -> Any:
        async for attempt in stamina.retry_context(**_STAMINA):
            with attempt:
                return await _later(call)()
        raise AssertionError

    return asyncio.run(run())


LOOPS = (
    *(tenacity_decorator, tenacity_async_decorator, tenacity_blocks, tenacity_async_blocks),
    *(stamina_decorator, stamina_async_decorator, stamina_context, stamina_async_context),
)
