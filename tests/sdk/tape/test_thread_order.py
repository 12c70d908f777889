"""Order of calls that `asyncio.to_thread` makes: a changed one is reported, a race is not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_tool


@traced_tool("first", effect="read")
def first() -> int:
    return 1


@traced_tool("second", effect="read")
def second() -> int:
    return 2


@traced_tool("third", effect="read")
async def third() -> int:
    return 3


Step = Callable[[], Awaitable[int]]


def in_thread(call: Callable[[], int]) -> Step:
    return lambda: asyncio.to_thread(call)


async def in_loop() -> int:
    return second()


async def in_own_loop() -> int:
    return await asyncio.to_thread(lambda: asyncio.run(third()))


STEPS: dict[str, tuple[Step, Step, str]] = {
    "two threads": (in_thread(first), in_thread(second), "first"),
    "thread, then plain call": (in_thread(first), in_loop, "first"),
    "plain call, then thread": (in_loop, in_thread(first), "second"),
    "thread, then coroutine": (in_thread(first), third, "first"),
    "loop in a thread": (in_own_loop, in_thread(first), "third"),
}


@pytest.mark.parametrize("name", STEPS)
def test_changed_order_is_reported(taped: Any, name: str) -> None:
    *steps, overtaken = STEPS[name]

    @traced_agent("a")
    async def agent() -> list[int]:
        return sorted([await step() for step in steps])

    _, tape = taped(lambda: asyncio.run(agent()))
    with tracereel.replay(tape) as unchanged:
        asyncio.run(agent())
    assert unchanged.report.identical

    steps.reverse()
    with tracereel.replay(tape, mode="report", stall_seconds=0.5) as changed:
        asyncio.run(agent())

    (divergence,) = changed.report.divergences
    assert (divergence.kind, divergence.name) == ("out of order", overtaken)
    assert "was called first" in divergence.detail


def test_order_of_concurrent_threads_is_no_divergence(taped: Any) -> None:
    calls = [first, second]

    @traced_agent("a")
    async def agent() -> list[int]:
        return sorted(await asyncio.gather(*(asyncio.to_thread(call) for call in calls)))

    _, tape = taped(lambda: asyncio.run(agent()))
    calls.reverse()
    with tracereel.replay(tape) as run:
        asyncio.run(agent())

    assert run.report.identical
