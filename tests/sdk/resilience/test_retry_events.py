"""Inside an agent, each attempt followed by another is one event and one child span."""

import asyncio
from datetime import datetime, timedelta

import pytest
from opentelemetry.trace import StatusCode

from tests.sdk.resilience.scripted import Scripted
from tracereel import current_execution, traced_agent, traced_pipeline, traced_tool
from tracereel.resilience import exponential_backoff, fixed_delay, retry

STEADY = exponential_backoff(2.0, jitter=0)


def moment(text):
    return datetime.fromisoformat(text)


def test_an_attempt_that_is_followed_by_another_is_an_event(recorded, sink, naps):
    script = Scripted(OSError("no route"), TimeoutError("after 30s"), "done")

    @traced_agent("parsing_agent")
    @retry(3, strategy=STEADY, sleep=naps)
    def parse(prompt: str) -> str:
        return script(prompt)

    parse("x")
    events = recorded()
    assert [event["event_type"] for event in events] == [
        "agent.execution.started",
        "agent.retry.attempted",
        "agent.retry.attempted",
        "agent.step.completed",
        "agent.execution.completed",
    ]
    started, first, second, last, completed = events
    assert (last["step_type"], last["attempt"], last["status"]) == ("attempt", 3, "success")
    expected = {
        "agent_name": "parsing_agent",
        "retry_attempt": 1,
        "original_error": "OSError: no route",
        "retry_reason": "error",
        "retry_strategy": "exponential_backoff",
        "delay_seconds": 2.0,
        "retry_successful": None,
        "trace_id": started["trace_id"],
        "parent_span_id": started["span_id"],
        "execution_id": started["execution_id"],
        "max_attempts": 3,
    }
    assert {name: first[name] for name in expected} == expected
    assert second["retry_attempt"] == 2
    assert second["retry_reason"] == "timeout"
    assert second["original_error"] == "TimeoutError: after 30s"
    assert second["delay_seconds"] == 4.0
    wait = moment(second["next_retry_at"]) - moment(second["timestamp"])
    assert timedelta(seconds=3) < wait <= timedelta(seconds=4)
    assert (completed["was_retried"], completed["retry_count"]) == (True, 2)
    assert completed["attempt"] == 3
    assert [event["trace_seq"] for event in events] == [1, 2, 3, 4, 5]


def test_exhausted_retries_are_marked_on_the_failure(recorded, naps):
    @traced_agent("a")
    @retry(3, strategy=fixed_delay(1), sleep=naps)
    def call() -> None:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        call()
    *_, failed = recorded()
    assert failed["event_type"] == "agent.execution.failed"
    assert (failed["was_retried"], failed["retry_count"]) == (True, 2)
    assert failed["max_retries_reached"] is True
    assert failed["fallback_attempted"] is False


def test_an_error_that_is_not_retried_has_not_reached_the_maximum(recorded, naps):
    @traced_agent("a")
    @retry(3, never=OSError, sleep=naps)
    def call() -> None:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        call()
    _, _, failed = recorded()
    assert (failed["was_retried"], failed["max_retries_reached"]) == (False, False)


def test_attempts_at_a_tool_bear_its_name_and_count_for_the_agent(recorded, spans, naps):
    script = Scripted(OSError("x"), "sunny")

    @traced_tool("weather")
    @retry(2, strategy=fixed_delay(1), sleep=naps)
    def weather() -> str:
        return script()

    @traced_agent("forecaster")
    def forecast() -> str:
        return weather()

    forecast()

    names = {span.name for span in spans.get_finished_spans()}
    assert {"attempt 1 of weather", "attempt 2 of weather"} <= names
    events = {event["event_type"]: event for event in recorded()}
    assert events["agent.retry.attempted"]["agent_name"] == "forecaster"
    assert events["agent.step.completed"]["step_name"] == "attempt 2 of weather"
    assert events["agent.execution.completed"]["retry_count"] == 1


def test_each_attempt_is_a_span_within_that_of_the_agent(recorded, spans, naps):
    script = Scripted(OSError("x"), "done")

    @traced_agent("inner")
    def inner() -> str:
        return script()

    @traced_agent("parsing_agent")
    @retry(2, strategy=fixed_delay(1), sleep=naps)
    def parse() -> str:
        return inner()

    parse()
    by_name = {}
    for span in spans.get_finished_spans():
        by_name.setdefault(span.name, []).append(span)
    (agent,) = by_name["invoke_agent parsing_agent"]
    (first,), (second,) = (
        by_name["attempt 1 of parsing_agent"],
        by_name["attempt 2 of parsing_agent"],
    )
    assert first.parent.span_id == second.parent.span_id == agent.context.span_id
    assert [span.parent.span_id for span in by_name["invoke_agent inner"]] == [
        first.context.span_id,
        second.context.span_id,
    ]
    assert (first.attributes["attempt"], first.attributes["error"]) == (1, "OSError: x")
    assert first.status.status_code is StatusCode.ERROR
    assert second.attributes["attempt"] == 2
    assert "error" not in second.attributes
    assert second.status.status_code is StatusCode.UNSET
    (shown,) = [event for event in agent.events if event.name == "retry_attempted"]
    expected = {"attempt": 1, "error": "OSError: x", "delay_seconds": 1.0}
    assert expected.items() <= dict(shown.attributes).items()
    (event,) = [each for each in recorded() if each["event_type"] == "agent.retry.attempted"]
    assert event["span_id"] == f"{first.context.span_id:016x}"
    assert (event["span_start_unix_nano"], event["span_end_unix_nano"]) == (
        first.start_time,
        first.end_time,
    )


def test_confidence_set_by_an_attempt_decides_about_retries(recorded, naps, of_type):
    said = Scripted(0.3, None, 0.9)

    @traced_agent("a")
    @retry(3, min_confidence=0.5, strategy=fixed_delay(1), sleep=naps)
    def call() -> str:
        current_execution().set(confidence=said())
        return "done"

    assert call() == "done"
    assert said.calls == 2, "an attempt that says nothing is not judged by the one before"
    (event,) = of_type("retry.attempted")
    assert event["retry_reason"] == "low_confidence"
    assert event["original_error"] == "LowConfidence: 0.3 is below 0.5"
    (completed,) = of_type("execution.completed")
    assert completed["confidence"] is None


def test_a_confidence_from_before_the_retries_is_kept_and_not_judged(naps, of_type):
    @retry(3, min_confidence=0.5, sleep=naps)
    def helper() -> str:
        return "done"

    @traced_agent("a")
    def call() -> str:
        current_execution().set(confidence=0.1)
        return helper()

    call()
    assert naps == []
    (completed,) = of_type("execution.completed")
    assert completed["confidence"] == 0.1


def test_a_retried_helper_counts_for_its_agent_and_the_outer_retry_numbers(naps, of_type):
    script = Scripted(OSError(1), OSError(2), OSError(3), "done")

    @retry(2, strategy=fixed_delay(1), sleep=naps)
    def helper() -> str:
        return script()

    @traced_agent("a")
    @retry(2, strategy=fixed_delay(5), sleep=naps)
    def call() -> str:
        return helper()

    assert call() == "done"
    assert naps == [1, 5, 1]
    assert [event["retry_attempt"] for event in of_type("retry.attempted")] == [1, 1, 1]
    assert {event["agent_name"] for event in of_type("retry.attempted")} == {"a"}
    (completed,) = of_type("execution.completed")
    assert (completed["retry_count"], completed["attempt"]) == (3, 2)


def test_an_agent_may_be_given_another_name_in_the_events(naps, of_type):
    @traced_agent("a")
    @retry(2, agent="model", sleep=naps)
    def call(script: Scripted) -> str:
        return script()

    call(Scripted(OSError(), "done"))
    (event,) = of_type("retry.attempted")
    assert event["agent_name"] == "model"


def test_a_function_retried_directly_in_a_pipeline_has_its_own_name(naps, of_type):
    script = Scripted(OSError(), "done")

    @retry(2, sleep=naps)
    def look_up() -> str:
        return script()

    @traced_pipeline("booking")
    def book() -> str:
        return look_up()

    book()
    (event,) = of_type("retry.attempted")
    assert event["agent_name"] == "look_up"


def test_outside_of_everything_a_retry_is_counted_as_dropped(recorded, registry, naps):
    assert retry(2, sleep=naps)(Scripted(OSError(), "done"))() == "done"
    assert recorded() == []
    labels = {"reason": "no_execution"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 1


def test_outside_of_everything_a_named_retry_is_a_trace_of_its_own(recorded, naps):
    retry(3, agent="loner", sleep=naps)(Scripted(OSError(), OSError(), "done"))()
    first, second, attempt, whole = recorded()
    assert len({event["trace_id"] for event in (first, second, attempt, whole)}) == 1
    assert (attempt["step_type"], whole["step_type"]) == ("attempt", "retry")
    assert whole["trace_event_count"] == 4
    assert first["agent_name"] == "loner"


def test_timeout_event_has_the_limit(naps, of_type):
    @traced_agent("a")
    @retry(2, timeout=0.01, sleep=naps.later)
    async def call() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(call())
    (event,) = of_type("retry.attempted")
    assert (event["retry_reason"], event["timeout_seconds"]) == ("timeout", 0.01)
    assert event["original_error"] == "TimeoutError"
    (failed,) = of_type("execution.failed")
    assert (failed["error_code"], failed["timeout_seconds"]) == ("EXECUTION_TIMEOUT", 0.01)


def test_an_agent_that_its_retry_stops_for_its_limit_has_failed(naps, of_type):
    """Python cancels a call that exceeds its limit; the agent itself was not cancelled."""

    @traced_agent("boss")
    async def ask() -> None:
        await call()

    @retry(2, timeout=0.01, sleep=naps.later)
    @traced_agent("slow")
    async def call() -> None:
        await asyncio.Event().wait()

    @traced_pipeline("whole")
    async def whole() -> None:
        await ask()

    with pytest.raises(TimeoutError):
        asyncio.run(whole())
    assert of_type("execution.cancelled") == []
    first, last, outer = of_type("execution.failed")
    for event in (first, last):
        assert (event["agent_name"], event["error_type"]) == ("slow", "TimeoutError")
        assert (event["error_code"], event["timeout_seconds"]) == ("EXECUTION_TIMEOUT", 0.01)
        assert (event["error_message"], event["propagated"]) == ("no result within 0.01 s", False)
        assert "await asyncio.Event().wait()" in event["stack_trace"]
    assert (outer["agent_name"], outer["propagated"]) == ("boss", True)
    assert outer["origin_execution_id"] == last["execution_id"]
    assert outer["timeout_seconds"] == 0.01
    (closed,) = of_type("pipeline.completed")
    assert (closed["error_code"], closed["timeout_seconds"]) == ("EXECUTION_TIMEOUT", 0.01)
    assert (closed["agents_executed"], closed["agents_failed"]) == (2, 2)


def test_an_agent_that_is_cancelled_within_its_limit_is_cancelled(naps, of_type):
    @retry(2, timeout=100, sleep=naps.later)
    @traced_agent("slow")
    async def call() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert of_type("execution.failed") == []
    (event,) = of_type("execution.cancelled")
    assert event["cancel_reason"] == "CancelledError"


def test_the_timeouts_of_provider_clients_are_known_by_their_name(naps, of_type):
    class APITimeoutError(Exception):
        pass

    traced_agent("a")(retry(2, sleep=naps)(Scripted(APITimeoutError("30s"), "done")))()
    (event,) = of_type("retry.attempted")
    assert event["retry_reason"] == "timeout"


def test_error_whose_str_raises_is_recorded(naps, of_type):
    class HostileError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    traced_agent("a")(retry(2, sleep=naps)(Scripted(HostileError(), "done")))()
    (event,) = of_type("retry.attempted")
    assert event["original_error"].startswith("HostileError: ")


def test_cancelling_during_the_delay_leaves_the_retry_and_a_cancelled_execution(recorded):
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    @traced_agent("a")
    @retry(3, sleep=forever)
    async def call() -> None:
        raise OSError("x")

    async def main() -> None:
        task = asyncio.create_task(call())
        await waiting.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert [event["event_type"] for event in recorded()] == [
        "agent.execution.started",
        "agent.retry.attempted",
        "agent.execution.cancelled",
    ]


def test_retries_are_counted_once_per_event(recorded, registry, naps):
    @traced_agent("a")
    @retry(4, sleep=naps)
    def call(script: Scripted) -> str:
        return script()

    call(Scripted(OSError(), TimeoutError(), TimeoutError(), "done"))
    recorded()

    def count(reason):
        labels = {"agent_name": "a", "retry_reason": reason}
        return registry.get_sample_value("agent_retries_total", labels)

    assert (count("error"), count("timeout")) == (1, 2)


def test_hundred_concurrent_retries_have_complete_events(recorded, sink, naps):
    @traced_agent("a")
    @retry(4, sleep=naps.later)
    async def call(script: Scripted) -> str:
        await asyncio.sleep(0)
        return script()

    async def main() -> None:
        scripts = [Scripted(*[OSError()] * (number % 4), "done") for number in range(100)]
        await asyncio.gather(*map(call, scripts))

    asyncio.run(main())
    recorded()
    for completed in sink.of_type("agent.execution.completed"):
        own = [
            event["retry_attempt"]
            for event in sink.of_type("agent.retry.attempted")
            if event["execution_id"] == completed["execution_id"]
        ]
        assert own == list(range(1, completed["retry_count"] + 1))
    counts = sorted(e["retry_count"] for e in sink.of_type("agent.execution.completed"))
    assert counts == sorted(number % 4 for number in range(100))
