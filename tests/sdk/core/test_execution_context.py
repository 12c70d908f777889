"""Callbacks for events, thinking options and time limits of an execution."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import tracereel
from tracereel import (
    current_execution,
    record_decision,
    traced_agent,
    traced_llm,
    traced_pipeline,
    traced_tool,
)
from tracereel.events import parse_event
from tracereel.resilience import fixed_delay, retry
from tracereel.testing import EventRecorder, StepClock, assert_event

STARTED, COMPLETED, FAILED = (
    f"agent.execution.{end}" for end in ("started", "completed", "failed")
)


def types(events: list[dict[str, object]]) -> list[str]:
    return [str(event["event_type"]).removeprefix("agent.") for event in events]


def test_a_callback_has_the_events_of_its_execution_and_of_those_inside() -> None:
    heard: list[dict[str, object]] = []

    @traced_agent("inner_agent")
    def inner() -> None:
        record_decision("d", reasoning="password: hunter2hunter2")

    @traced_agent("outer_agent", on_event=heard.append)
    def outer() -> None:
        inner()

    with EventRecorder() as events:
        outer()
        inner()
    assert types(heard) == [
        *("execution.started", "execution.started", "decision.recorded"),
        *("execution.completed", "execution.completed"),
    ]
    for event, recorded in zip(heard, events, strict=False):
        assert parse_event(event).event_id == recorded["event_id"]
        assert event == {name: recorded[name] for name in event}
    assert "hunter2" not in str(heard)


def test_each_execution_has_its_own_callback() -> None:
    first: list[dict[str, object]] = []
    second: list[dict[str, object]] = []

    async def run(target: list[dict[str, object]], name: str) -> None:
        async with traced_agent(name, on_event=target.append):
            await asyncio.sleep(0)
            record_decision(name)

    async def main() -> None:
        await asyncio.gather(run(first, "a"), run(second, "b"))

    with EventRecorder():
        asyncio.run(main())
    assert {event["agent_name"] for event in first} == {"a"}
    assert {event["agent_name"] for event in second} == {"b"}
    assert len(first) == len(second) == 3


def test_a_callback_is_added_during_the_execution() -> None:
    heard: list[dict[str, object]] = []

    @traced_pipeline("booking")
    def book() -> None:
        current_execution().on_event(heard.append)
        record_decision("d")

    current_execution().on_event(heard.append)
    with EventRecorder():
        book()
    assert types(heard) == ["decision.recorded", "pipeline.completed"]


def test_a_callback_that_raises_or_changes_events_does_no_harm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def spoil(event: dict[str, object]) -> None:
        event.clear()
        raise RuntimeError("no connection")

    heard: list[dict[str, object]] = []

    @traced_agent("a", on_event=spoil)
    @traced_agent("b", on_event=heard.append)
    def agent() -> str:
        return "done"

    with EventRecorder() as events:
        assert agent() == "done"
    assert len(events) == 4
    assert len(heard) == 2
    assert all(heard)
    assert caplog.text.count("a callback for events raised and is ignored: RuntimeError") == 1


def test_traced_calls_of_a_callback_do_not_call_it_again() -> None:
    @traced_tool("send")
    def send(event: dict[str, object]) -> None:
        record_decision("sent")

    @traced_agent("a", on_event=send)
    def agent() -> None: ...

    with EventRecorder() as events:
        agent()
    assert types(events.events).count("tool.called") == 2


def test_events_of_other_threads_of_the_run_reach_the_callback() -> None:
    heard: list[dict[str, object]] = []

    @traced_tool("lookup")
    def lookup() -> None: ...

    @traced_agent("a", on_event=heard.append)
    def agent() -> None:
        thread = threading.Thread(target=tracereel.carry(lookup))
        thread.start()
        thread.join()

    with EventRecorder():
        agent()
    assert types(heard) == ["execution.started", "tool.called", "execution.completed"]


@pytest.mark.parametrize("given", ["print", 7, asyncio.sleep])
def test_a_callback_must_be_a_plain_function(given: object) -> None:
    with pytest.raises(TypeError, match="on_event is"):
        traced_agent("a", on_event=given)
    with pytest.raises(TypeError, match="on_event is"):
        current_execution().on_event(given)


@dataclass
class RunContext:
    enable_thinking: bool
    thinking_budget: int


def test_thinking_is_recorded_from_options_arguments_and_context() -> None:
    @traced_agent("options", enable_thinking=True, thinking_budget=1024)
    def by_options(thinking_budget: int = 1) -> None: ...

    @traced_agent("arguments")
    def by_arguments(prompt: str, *, enable_thinking: bool, thinking_budget: int) -> None: ...

    @traced_agent("context")
    def by_context(context: RunContext) -> None:
        current_execution().set(thinking_budget=99)

    with EventRecorder() as events:
        by_options()
        by_arguments("x", enable_thinking=False, thinking_budget=0)
        by_context(RunContext(enable_thinking=True, thinking_budget=512))
    for name, enabled, budget in [
        ("options", True, 1024),
        ("arguments", False, 0),
        ("context", True, 512),
    ]:
        fields = {"enable_thinking": enabled, "thinking_budget": budget}
        assert_event(events, STARTED, agent_name=name, **fields)
    assert_event(events, COMPLETED, agent_name="context", thinking_budget=99)


@pytest.mark.parametrize(
    ("options", "arguments", "enabled", "budget"),
    [
        ({"enable_thinking": True, "thinking_budget": 5}, {}, True, 5),
        ({}, {"enable_thinking": False, "thinking_budget": 7}, False, 7),
        ({}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, True, 2048),
        ({}, {"thinking": {"type": "disabled"}}, False, None),
        ({}, {"thinking": "a lot"}, None, None),
        ({}, {"enable_thinking": "yes", "thinking_budget": -1}, None, None),
        ({}, {}, None, None),
    ],
)
def test_thinking_is_recorded_of_model_calls(
    options: dict[str, object],
    arguments: dict[str, object],
    enabled: bool | None,
    budget: int | None,
) -> None:
    @traced_llm("qwen-2.5", **options)
    def complete(prompt: str, **more: object) -> None: ...

    with EventRecorder() as events:
        complete("x", **arguments)
    assert_event(events, "agent.llm.called", enable_thinking=enabled, thinking_budget=budget)


@pytest.mark.parametrize("recording", [True, False])
def test_a_coroutine_is_cancelled_at_its_time_limit(
    monkeypatch: pytest.MonkeyPatch, recording: bool
) -> None:
    monkeypatch.setenv("TRACEREEL_ENABLED", str(recording))
    stopped = []

    @traced_agent("slow_agent", timeout=0.01)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    with pytest.raises(TimeoutError, match=r"no result within 0\.01 s"):
        asyncio.run(slow())
    assert stopped == [True]


def test_a_cancelled_coroutine_has_failed_with_a_timeout() -> None:
    @traced_tool("search")
    async def search() -> None:
        await asyncio.Event().wait()

    @traced_agent("slow_agent", timeout=0.01)
    async def slow() -> None:
        await search()

    with EventRecorder() as events, pytest.raises(TimeoutError):
        asyncio.run(slow())
    assert_event(events, STARTED, timeout_seconds=0.01)
    assert_event(events, "agent.tool.called", status="cancelled")
    assert_event(
        events,
        FAILED,
        error_code="EXECUTION_TIMEOUT",
        error_category="transient",
        error_type="TimeoutError",
        stage="agent",
        timeout_seconds=0.01,
    )


def test_a_timeout_of_the_agents_own_is_left_as_it_is() -> None:
    own = TimeoutError("mine")

    @traced_agent("a", timeout=60)
    async def fail() -> None:
        raise own

    with EventRecorder() as events, pytest.raises(TimeoutError) as caught:
        asyncio.run(fail())
    assert caught.value is own
    assert_event(events, FAILED, error_message="mine", timeout_seconds=60.0)


def test_a_cancellation_from_outside_stays_one() -> None:
    async def main() -> None:
        @traced_agent("a", timeout=60)
        async def wait() -> None:
            await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with EventRecorder() as events:
        asyncio.run(main())
    assert_event(events, "agent.execution.cancelled", cancel_reason="CancelledError")


def test_a_limited_agent_is_retried() -> None:
    waits = iter([True, False])

    @retry(2, strategy=fixed_delay(0))
    @traced_agent("a", timeout=0.01)
    async def sometimes() -> str:
        if next(waits):
            await asyncio.Event().wait()
        return "done"

    with EventRecorder() as events:
        assert asyncio.run(sometimes()) == "done"
    assert_event(events, "agent.retry.attempted", retry_reason="timeout")


def test_calls_that_cannot_be_stopped_are_marked() -> None:
    clock = StepClock(step_ms=0)

    @traced_agent("function", timeout=1)
    def late() -> str:
        clock.advance(2)
        return "late"

    @traced_agent("generator", timeout=1)
    def items() -> Iterator[int]:
        clock.advance(2)
        yield 1

    @traced_agent("in time", timeout=1)
    def soon() -> None: ...

    with EventRecorder(clock=clock) as events:
        assert late() == "late"
        assert list(items()) == [1]
        with traced_agent("block", timeout=1):
            clock.advance(2)
        soon()
    for name in ("function", "generator", "block"):
        fields = {"end_code": "EXECUTION_TIMEOUT", "timeout_seconds": 1.0}
        assert_event(events, COMPLETED, agent_name=name, **fields)
    assert "end_code" not in assert_event(events, COMPLETED, agent_name="in time")


def test_a_coroutine_without_asyncio_is_marked() -> None:
    clock = StepClock(step_ms=0)

    @traced_agent("a", timeout=1)
    async def late() -> str:
        clock.advance(2)
        return "late"

    with EventRecorder(clock=clock) as events, pytest.raises(StopIteration, match="late"):
        late().send(None)
    assert_event(events, COMPLETED, end_code="EXECUTION_TIMEOUT")


def test_there_is_no_limit_by_default() -> None:
    @traced_agent("a")
    def agent() -> None: ...

    with EventRecorder() as events:
        agent()
    assert assert_event(events, STARTED)["timeout_seconds"] is None
    assert "timeout_seconds" not in assert_event(events, COMPLETED)


@pytest.mark.parametrize("given", [0, -1, "5", True, float("nan")])
def test_a_limit_is_a_number_above_zero(given: object) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        traced_agent("a", timeout=given)
