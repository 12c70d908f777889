"""Cancellation, timeouts, groups and generators under asyncio behave as without tracing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop

import tracereel
from tracereel import current_execution, traced_agent

Deliver = Callable[[], list[dict[str, Any]]]
Decorate = Callable[[Any], Any]
Scenario = Callable[[Decorate], Awaitable[Any]]


class OwnError(Exception):
    """Exception of the program."""


async def outcome(awaitable: Awaitable[Any]) -> Any:
    """Return a comparable outcome of an awaitable."""
    try:
        return "returned", await awaitable
    except BaseExceptionGroup as group:
        return type(group), sorted(repr(error) for error in group.exceptions)
    except BaseException as error:
        return type(error), error.args, type(error.__cause__), type(error.__context__)


async def cancelled_while_it_waits(decorate: Decorate) -> Any:
    @decorate
    async def wait() -> None:
        await asyncio.sleep(3600)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asked = task.cancel("because")
    return asked, await outcome(task), task.cancelled(), task.cancelling()


async def cancelled_before_it_begins(decorate: Decorate) -> Any:
    @decorate
    async def never() -> None:
        raise AssertionError

    task = asyncio.create_task(never())
    return task.cancel(), await outcome(task), task.cancelled()


async def cancelled_and_taking_its_time(decorate: Decorate) -> Any:
    seen = []

    @decorate
    async def tidy() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            await asyncio.sleep(0)
        return "tidied"

    task = asyncio.create_task(tidy())
    await asyncio.sleep(0)
    task.cancel("once")
    return await outcome(task), task.cancelled(), task.cancelling(), seen


async def timed_out(decorate: Decorate) -> Any:
    @decorate
    async def wait() -> None:
        await asyncio.sleep(3600)

    async def within() -> None:
        async with asyncio.timeout(0.01):
            await wait()

    @decorate
    async def limits_itself() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)

    task = asyncio.current_task()
    assert task is not None
    results = [
        await outcome(within()),
        await outcome(asyncio.wait_for(wait(), 0.01)),
        await outcome(limits_itself()),
    ]
    return results, task.cancelling()


async def a_group_where_one_fails(decorate: Decorate) -> Any:
    ends: list[Any] = []

    @decorate
    async def member(number: int) -> int:
        try:
            await asyncio.sleep(0.001 if number == 3 else 3600)
        except asyncio.CancelledError as error:
            ends.append((number, error.args))
            raise
        raise OwnError(number)

    @decorate
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(6):
                tasks.create_task(member(number))

    return await outcome(group()), sorted(ends)


async def gathered(decorate: Decorate) -> Any:
    @decorate
    async def member(number: int) -> int:
        await asyncio.sleep(0)
        if number % 2:
            raise OwnError(number)
        return number

    found = await asyncio.gather(*map(member, range(6)), return_exceptions=True)
    return [repr(each) for each in found]


async def shielded(decorate: Decorate) -> Any:
    go = asyncio.Event()

    @decorate
    async def inner() -> str:
        await go.wait()
        return "done"

    protected = asyncio.ensure_future(inner())

    @decorate
    async def outer() -> str:
        return await asyncio.shield(protected)

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    first = await outcome(task)
    go.set()
    return first, await outcome(protected)


async def a_generator_closed_by_another_task(decorate: Decorate) -> Any:
    seen: list[Any] = []

    @decorate
    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
                await asyncio.sleep(0)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            seen.append("closed")

    stream = numbers()

    async def begin() -> list[int]:
        return [await anext(stream), await anext(stream)]

    first = await asyncio.create_task(begin())
    after = await outcome(asyncio.create_task(stream.aclose()))  # type: ignore[attr-defined]
    return first, after, seen, await outcome(anext(stream, "nothing"))  # type: ignore[arg-type]


async def a_generator_left_to_the_loop(decorate: Decorate) -> Any:
    seen: list[Any] = []

    @decorate
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append("closed")

    async for number in numbers():
        seen.append(number)
        break
    await asyncio.get_running_loop().shutdown_asyncgens()
    return seen


async def a_plain_generator_ended_in_a_thread(decorate: Decorate) -> Any:
    seen: list[Any] = []

    @decorate
    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append(threading.current_thread() is threading.main_thread())

    stream = numbers()
    first = next(stream)
    await asyncio.to_thread(stream.close)  # type: ignore[attr-defined]
    return first, seen


async def a_step_into_a_thread_and_back(decorate: Decorate) -> Any:
    @decorate
    def work(number: int) -> int:
        return number * 2

    @decorate
    async def both() -> list[int]:
        return [await asyncio.to_thread(work, number) for number in range(3)]

    return await both()


SCENARIOS: dict[Scenario, list[str]] = {
    cancelled_while_it_waits: ["started", "cancelled"],
    cancelled_before_it_begins: [],
    cancelled_and_taking_its_time: ["started", "completed"],
    timed_out: ["started", "cancelled"] * 2 + ["started", "failed"],
    a_group_where_one_fails: ["started"] * 7 + ["failed"] + ["cancelled"] * 5 + ["failed"],
    gathered: ["started"] * 6 + ["completed", "failed"] * 3,
    shielded: ["started", "started", "cancelled", "completed"],
    a_generator_closed_by_another_task: ["started", "cancelled"],
    a_generator_left_to_the_loop: ["started", "cancelled"],
    a_plain_generator_ended_in_a_thread: ["started", "cancelled"],
    a_step_into_a_thread_and_back: ["started", *(["started", "completed"] * 3), "completed"],
}
"""Scenarios of a call and the events they produce."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_traced_asyncio_code_behaves_like_untraced(
    recorded: Deliver, caplog: pytest.LogCaptureFixture, scenario: Scenario, loop: Any
) -> None:
    """Same results, exceptions, messages and order; no error about a detached context."""

    async def run(decorate: Decorate) -> Any:
        result = await scenario(decorate)
        assert not current_execution()
        return result

    outcomes = []
    for decorate in (lambda function: function, traced_agent("a")):
        with asyncio.Runner(loop_factory=loop) as runner:
            outcomes.append(runner.run(run(decorate)))
    assert outcomes[0] == outcomes[1]
    assert not current_execution()
    told = [event["event_type"].removeprefix("agent.execution.") for event in recorded()]
    assert told == SCENARIOS[scenario]
    assert [record for record in caplog.records if record.name != __name__] == []
    assert tracereel.flush(0.0).dropped == 0
