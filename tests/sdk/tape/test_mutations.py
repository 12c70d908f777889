"""Programs changed since their recording: the first change is named."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracereel
from tests.support.replay_trial import recording
from tracereel import traced_agent, traced_step, traced_tool
from tracereel.tape import DivergenceError
from tracereel.tape import format as tape_format

TOOLS = ("alpha", "beta", "gamma")
asked: list[str] = []


def _tool(name: str) -> Any:
    @traced_tool(name, effect="write")
    async def call(value: int, note: str = "") -> str:
        asked.append(name)
        await asyncio.sleep(0)
        return f"{name} {value}"

    return call


CALLS = {name: _tool(name) for name in TOOLS}


@dataclass(frozen=True)
class Call:
    """One call of a program; its value is unique."""

    tool: str
    value: int
    step: bool = False


@traced_agent("program")
async def program(calls: list[Call]) -> list[str]:
    said = []
    for call in calls:
        if call.step:
            async with traced_step("step"):
                said.append(await CALLS[call.tool](call.value))
        else:
            said.append(await CALLS[call.tool](call.value))
    return said


def record(calls: list[Call]) -> Any:
    with recording() as events:
        asyncio.run(program(calls))
    return tape_format.parse(events)


def first_divergence(tape: Any, calls: list[Call]) -> Any:
    asked.clear()
    # The run's arguments are not compared, only its calls.
    with pytest.raises(DivergenceError) as caught, tracereel.replay(tape):
        asyncio.run(program(calls))
    assert asked == []
    return caught.value.divergence


PROGRAMS = st.lists(
    st.builds(Call, tool=st.sampled_from(TOOLS), value=st.integers(0, 9999), step=st.booleans()),
    min_size=2,
    max_size=8,
    unique_by=lambda call: call.value,
)
EXAMPLES = settings(max_examples=25, deadline=None)


@given(PROGRAMS, st.data())
@EXAMPLES
def test_a_changed_argument_is_named(calls: list[Call], data: Any) -> None:
    at = data.draw(st.integers(0, len(calls) - 1))
    changed = [*calls]
    changed[at] = replace(calls[at], value=calls[at].value + 10_000)
    found = first_divergence(record(calls), changed)

    assert (found.kind, found.name, found.position) == ("changed", calls[at].tool, at + 1)
    assert str(found.differences[0]) == f"value: {calls[at].value} → {changed[at].value}"


@given(PROGRAMS, st.data())
@EXAMPLES
def test_a_missing_call_is_named(calls: list[Call], data: Any) -> None:
    at = data.draw(st.integers(0, len(calls) - 1))
    found = first_divergence(record(calls), calls[:at] + calls[at + 1 :])

    assert (found.kind, found.name, found.position) == ("missing", calls[at].tool, at + 1)


@given(PROGRAMS, st.data())
@EXAMPLES
def test_an_extra_call_is_named(calls: list[Call], data: Any) -> None:
    at = data.draw(st.integers(0, len(calls)))
    new = Call(data.draw(st.sampled_from(TOOLS)), 77_777, data.draw(st.booleans()))
    found = first_divergence(record(calls), [*calls[:at], new, *calls[at:]])

    assert (found.kind, found.name, found.position) == ("extra", new.tool, at + 1)


@given(PROGRAMS, st.data())
@EXAMPLES
def test_calls_that_changed_places_are_named(calls: list[Call], data: Any) -> None:
    at = data.draw(st.integers(0, len(calls) - 2))
    swapped = [*calls]
    swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    found = first_divergence(record(calls), swapped)

    assert (found.kind, found.name, found.position) == ("out of order", calls[at].tool, at + 1)


@given(PROGRAMS, st.data())
@EXAMPLES
def test_of_two_changes_the_first_is_named(calls: list[Call], data: Any) -> None:
    first = data.draw(st.integers(0, len(calls) - 2))
    second = data.draw(st.integers(first + 1, len(calls) - 1))
    changed = [*calls]
    changed[first] = replace(calls[first], value=50_000)
    changed[second] = replace(calls[second], value=60_000)
    found = first_divergence(record(calls), changed)

    assert (found.kind, found.position) == ("changed", first + 1)
    assert str(found.differences[0]) == f"value: {calls[first].value} → 50000"


@given(PROGRAMS)
@EXAMPLES
def test_an_unchanged_program_does_not_diverge(calls: list[Call]) -> None:
    tape = record(calls)
    asked.clear()
    with tracereel.replay(tape) as run:
        asyncio.run(program(calls))

    assert run.report.identical
    assert asked == []


def test_calls_that_begin_together_in_tasks_have_no_order() -> None:
    @traced_agent("gathers")
    async def gathers(order: list[int]) -> list[str]:
        found = dict(
            zip(order, await asyncio.gather(*(CALLS["alpha"](n) for n in order)), strict=True)
        )
        return [found[number] for number in sorted(found)]

    with recording() as events:
        asyncio.run(gathers([1, 2, 3]))
    with tracereel.replay(tape_format.parse(events)) as run:
        asyncio.run(gathers([3, 1, 2]))

    assert run.report.identical
