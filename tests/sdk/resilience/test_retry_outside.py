"""Around an agent, its executions are the attempts: numbered, in one trace, under one span."""

import asyncio
import concurrent.futures

import pytest

from tests.sdk.resilience.scripted import Scripted
from tracereel import current_execution, traced_agent, traced_pipeline
from tracereel.resilience import fixed_delay, retry


def types(events):
    return [event["event_type"].removeprefix("agent.") for event in events]


def test_each_attempt_is_an_execution_and_all_are_one_trace(recorded, naps):
    script = Scripted(OSError("x"), OSError("y"), "done")

    @retry(3, strategy=fixed_delay(1), sleep=naps)
    @traced_agent("parsing_agent")
    def parse() -> str:
        return script()

    assert parse() == "done"
    events = recorded()
    assert types(events) == [
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.completed", "step.completed"),
    ]
    assert len({event["trace_id"] for event in events}) == 1
    assert [event["trace_seq"] for event in events] == list(range(1, 10))
    assert events[-1]["trace_event_count"] == 9
    assert {event["agent_name"] for event in events} == {"parsing_agent"}
    assert [event["original_error"] for event in events if "original_error" in event] == [
        "OSError: x",
        "OSError: y",
    ]
    ended = [events[1], events[4], events[7]]
    assert [event["attempt"] for event in ended] == [1, 2, 3]
    assert [event["retry_count"] for event in ended] == [0, 1, 2]
    assert [event["was_retried"] for event in ended] == [False, True, True]


def test_only_the_last_failure_has_reached_the_maximum(recorded, naps):
    @retry(2, sleep=naps)
    @traced_agent("a")
    def call() -> None:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        call()
    failed = [event for event in recorded() if event["event_type"].endswith("failed")]
    assert [event["max_retries_reached"] for event in failed] == [False, True]


def test_the_executions_hang_under_one_logical_span(recorded, spans, naps):
    script = Scripted(OSError("x"), "done")

    @retry(2, strategy=fixed_delay(1), sleep=naps)
    @traced_agent("a")
    def call() -> str:
        return script()

    call()
    finished = {span.name: span for span in spans.get_finished_spans()}
    assert sorted(finished) == ["invoke_agent a", "retry a"]
    executions = [span for span in spans.get_finished_spans() if span.name == "invoke_agent a"]
    logical = finished["retry a"]
    assert [span.parent.span_id for span in executions] == [logical.context.span_id] * 2
    (shown,) = logical.events
    assert shown.name == "retry_attempted"
    expected = {"attempt": 1, "error": "OSError: x", "delay_seconds": 1.0}
    assert expected.items() <= dict(shown.attributes).items()
    (event,) = [each for each in recorded() if each["event_type"] == "agent.retry.attempted"]
    assert event["span_id"] == f"{logical.context.span_id:016x}"


def test_confidence_set_by_an_execution_decides_about_retries(naps, of_type):
    said = Scripted(0.2, 0.9)

    @retry(3, min_confidence=0.5, sleep=naps)
    @traced_agent("a")
    def call() -> None:
        current_execution().set(confidence=said())

    call()
    assert said.calls == 2
    assert [event["retry_reason"] for event in of_type("retry.attempted")] == ["low_confidence"]


def test_within_a_pipeline_the_events_are_part_of_its_run(recorded, naps):
    script = Scripted(OSError("x"), "done")

    @retry(2, sleep=naps)
    @traced_agent("a")
    async def call() -> str:
        return script()

    @traced_pipeline("p")
    async def run() -> str:
        return await call()

    asyncio.run(run())
    events = recorded()
    assert types(events) == [
        "pipeline.started",
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.completed", "step.completed", "pipeline.completed"),
    ]
    assert len({event["trace_id"] for event in events}) == 1
    assert events[3]["agent_name"] == "a"
    assert [event.get("trace_event_count") for event in events] == [None] * 7 + [8]


def test_agents_called_inside_an_attempt_are_not_numbered(recorded, naps):
    script = Scripted(OSError("x"), "done")

    @traced_agent("inner")
    def inner() -> str:
        return script()

    @retry(2, sleep=naps)
    @traced_agent("outer")
    def outer() -> str:
        return inner()

    outer()
    ended = [
        event
        for event in recorded()
        if event["event_type"] in ("agent.execution.failed", "agent.execution.completed")
    ]
    assert [(event["agent_name"], event.get("attempt")) for event in ended] == [
        ("inner", None),
        ("outer", 1),
        ("inner", None),
        ("outer", 2),
    ]


def test_an_agent_that_calls_itself_is_numbered_once(recorded, naps):
    @retry(2, sleep=naps)
    @traced_agent("a")
    def again(depth: int) -> int:
        return inner(depth - 1) if depth else 0

    inner = traced_agent("a")(lambda depth: depth)
    again(1)
    ended = [event for event in recorded() if event["event_type"] == "agent.execution.completed"]
    assert [event.get("attempt") for event in ended] == [None, 1]


def test_a_trace_id_the_agent_adopts_is_that_of_the_retry_too(recorded, naps):
    script = Scripted(OSError("x"), "done")

    @retry(2, sleep=naps)
    @traced_agent("a")
    def call(trace_id: str) -> str:
        return script()

    call(trace_id="trc_main_abc123")
    assert {event["trace_id"] for event in recorded()} == {"trc_main_abc123"}


def test_a_hundred_tasks_have_a_hundred_traces(recorded, sink, naps):
    @retry(4, sleep=naps.later)
    @traced_agent("a")
    async def call(script: Scripted) -> str:
        await asyncio.sleep(0)
        return script()

    async def main() -> None:
        scripts = [Scripted(*[OSError()] * (number % 4), "done") for number in range(100)]
        await asyncio.gather(*map(call, scripts))

    asyncio.run(main())
    traces = {}
    for event in recorded():
        traces.setdefault(event["trace_id"], []).append(event)
    assert len(traces) == 100
    for events in traces.values():
        *_, last, whole = events
        assert last["event_type"] == "agent.execution.completed"
        assert types(events).count("retry.attempted") == last["retry_count"] == last["attempt"] - 1
        assert whole["event_type"] == "agent.step.completed"
        assert whole["trace_event_count"] == len(events)


def test_threads_do_not_mix(recorded, naps):
    @retry(3, sleep=naps)
    @traced_agent("a")
    def call(script: Scripted) -> str:
        return script()

    scripts = [Scripted(*[OSError()] * (number % 3), "done") for number in range(60)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, scripts)) == ["done"] * 60
    completed = [e for e in recorded() if e["event_type"] == "agent.execution.completed"]
    assert sorted(e["retry_count"] for e in completed) == sorted(n % 3 for n in range(60))
