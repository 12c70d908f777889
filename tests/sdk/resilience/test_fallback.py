"""Fallbacks run when a function fails or has low confidence, and are recorded as events."""

import asyncio
import traceback

import pytest

import tracereel
from tests.sdk.resilience.scripted import Scripted
from tracereel import current_execution, traced_agent, traced_pipeline
from tracereel.resilience import fallback, fixed_delay, retry


def types(events):
    return [event["event_type"].removeprefix("agent.") for event in events]


def with_regex(prompt: str = "") -> str:
    return f"regex {prompt}".strip()


@pytest.fixture(params=["recording", "off"])
def _either_way(request, sink):
    tracereel.configure(endpoint=sink.url, enabled=request.param == "recording")


@pytest.mark.usefixtures("_either_way")
class TestWhatComesOut:
    def test_a_primary_that_succeeds_is_left_alone(self):
        backup = Scripted()

        assert fallback(to=backup)(Scripted("done"))() == "done"
        assert backup.calls == 0

    def test_the_fallback_gets_the_same_arguments(self):
        @fallback(to=lambda *args, **kwargs: (args, kwargs))
        def call(*args: object, **kwargs: object) -> object:
            raise OSError

        assert call(1, b=2) == ((1,), {"b": 2})

    def test_a_chain_is_tried_in_turn(self):
        second = Scripted("second")
        call = fallback(to=[Scripted(ValueError()), second, Scripted()])(Scripted(OSError()))

        assert call() == "second"

    def test_when_all_fail_the_primary_s_exception_is_raised_with_notes(self):
        error = OSError("primary")
        chain = [Scripted(ValueError("one")), Scripted(KeyError("two"))]

        with pytest.raises(OSError, match="primary") as raised:
            fallback(to=chain)(Scripted(error))()

        assert raised.value is error
        assert [note.split(": ", 1)[1] for note in error.__notes__] == [
            "the fallback Scripted failed too: ValueError: one",
            "the fallback Scripted failed too: KeyError: 'two'",
        ]
        assert "primary" in "".join(traceback.format_exception(error))

    def test_other_errors_pass(self):
        backup = Scripted()

        with pytest.raises(ValueError, match="x"):
            fallback(to=backup, on=OSError)(Scripted(ValueError("x")))()
        assert backup.calls == 0

    @pytest.mark.parametrize("stop", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit()])
    def test_interrupts_are_not_caught_in_primary_and_fallback(self, stop):
        backup = Scripted("never")
        with pytest.raises(type(stop)):
            fallback(to=backup, on=BaseException)(Scripted(stop))()
        assert backup.calls == 0
        with pytest.raises(type(stop)):
            fallback(to=[Scripted(stop), backup])(Scripted(OSError()))()
        assert backup.calls == 0

    def test_a_result_may_be_refused(self):
        call = fallback(to=Scripted("better"), when=lambda result: result == "bad")

        assert call(Scripted("bad"))() == "better"
        assert call(Scripted("good"))() == "good"

    def test_refused_result_is_returned_without_a_better_one(self):
        call = fallback(to=Scripted(OSError()), when=lambda _: True)(Scripted("poor"))

        assert call() == "poor"

    def test_low_confidence_makes_it_take_over(self):
        call = fallback(to=Scripted(0.7), min_confidence=0.5, confidence_of=float)

        assert call(Scripted(0.2))() == 0.7
        assert call(Scripted(0.6))() == 0.6

    def test_when_condition_that_raises_is_ignored(self):
        assert fallback(to=Scripted(), when=lambda _: 1 / 0)(Scripted("done"))() == "done"

    def test_coroutines_and_their_fallbacks_of_both_kinds(self):
        async def later(prompt: str) -> str:
            return "later"

        @fallback(to=[with_regex])
        async def first(prompt: str) -> str:
            raise OSError

        @fallback(to=later)
        async def second(prompt: str) -> str:
            raise OSError

        assert asyncio.run(first("x")) == "regex x"
        assert asyncio.run(second("x")) == "later"

    def test_methods(self):
        class Agent:
            def plainly(self, value: int) -> str:
                return f"plainly {value} {type(self).__name__}"

            @fallback(to=plainly)
            def call(self, value: int) -> str:
                raise OSError

        assert Agent().call(3) == "plainly 3 Agent"

    def test_invalid_fallback_is_refused_at_decoration(self):
        async def later() -> None: ...

        def generator():
            yield

        with pytest.raises(TypeError, match="coroutine"):
            fallback(to=later)(with_regex)
        with pytest.raises(TypeError, match="generator"):
            fallback(to=generator)(with_regex)
        with pytest.raises(TypeError, match="generator"):
            fallback(to=with_regex)(generator)
        with pytest.raises(ValueError, match="min_confidence"):
            fallback(to=with_regex, min_confidence="high")
        for nothing in ([], 7, [7]):
            with pytest.raises(TypeError):
                fallback(to=nothing)


def test_inside_an_agent_the_fallback_is_one_event(recorded):
    @traced_agent("parsing_agent")
    @fallback(to=with_regex)
    def parse(prompt: str) -> str:
        raise OSError("away")

    assert parse("x") == "regex x"
    started, event, completed = recorded()
    expected = {
        "event_type": "agent.fallback.triggered",
        "primary_agent": "parsing_agent",
        "fallback_agent": "with_regex",
        "trigger_reason": "error",
        "primary_error": "OSError: away",
        "fallback_successful": True,
        "fallback_output_summary": "regex x",
        "fallback_confidence": None,
        "quality_delta": None,
        "trace_id": started["trace_id"],
        "execution_id": started["execution_id"],
    }
    assert {name: event[name] for name in expected} == expected
    assert completed["fallback_used"] is True
    assert [each.get("trace_event_count") for each in (started, event, completed)] == [
        None,
        None,
        3,
    ]


def test_agent_then_fallback_then_retry(recorded, naps):
    @traced_agent("parsing_agent")
    @fallback(to=with_regex)
    @retry(3, strategy=fixed_delay(1), sleep=naps)
    def parse() -> str:
        raise OSError("away")

    parse()
    events = recorded()
    assert types(events) == [
        "execution.started",
        "retry.attempted",
        "retry.attempted",
        "step.completed",
        "fallback.triggered",
        "execution.completed",
    ]
    assert events[4]["trigger_reason"] == "max_retries_exceeded"
    completed = events[-1]
    assert (completed["retry_count"], completed["fallback_used"]) == (2, True)


def test_an_error_that_was_not_worth_a_retry_is_not_called_exhausted(naps, of_type):
    @traced_agent("a")
    @fallback(to=with_regex)
    @retry(3, never=OSError, sleep=naps)
    def call() -> str:
        raise OSError("x")

    call()
    assert [event["trigger_reason"] for event in of_type("triggered")] == ["error"]


def test_retries_that_never_were_sure_enough_are_exhausted_too(naps, of_type):
    @traced_agent("a")
    @fallback(to=with_regex, min_confidence=0.5)
    @retry(2, min_confidence=0.5, sleep=naps)
    def call() -> str:
        current_execution().set(confidence=0.4)
        return "poor"

    assert call() == "regex"
    (event,) = of_type("triggered")
    assert event["trigger_reason"] == "max_retries_exceeded"
    assert event["primary_error"] == "LowConfidence: 0.4 is below 0.5"


def test_quality_is_the_difference_of_confidences(of_type):
    def backup() -> str:
        current_execution().set(confidence=0.65)
        return "backup"

    @traced_agent("a")
    @fallback(to=backup)
    def call() -> str:
        current_execution().set(confidence=0.92)
        raise OSError("x")

    call()
    (event,) = of_type("triggered")
    assert (event["fallback_confidence"], event["quality_delta"]) == (0.65, -0.27)
    (completed,) = of_type("execution.completed")
    assert completed["confidence"] == 0.65


def test_the_confidence_of_the_primary_does_not_pass_for_that_of_the_fallback(of_type):
    @traced_agent("a")
    @fallback(to=with_regex, min_confidence=0.5)
    def call() -> str:
        current_execution().set(confidence=0.2)
        return "poor"

    call()
    (event,) = of_type("triggered")
    assert event["trigger_reason"] == "low_confidence"
    assert (event["fallback_confidence"], event["quality_delta"]) == (None, None)
    (completed,) = of_type("execution.completed")
    assert completed["confidence"] is None


def test_an_agent_that_takes_over_lends_its_confidence_to_the_one_around(of_type):
    @traced_agent("backup")
    def backup() -> str:
        current_execution().set(confidence=0.6)
        return "backup"

    @traced_agent("a")
    @fallback(to=backup, min_confidence=0.5)
    def call() -> str:
        current_execution().set(confidence=0.25)
        return "poor"

    call()
    (event,) = of_type("triggered")
    assert (event["fallback_confidence"], event["quality_delta"]) == (0.6, 0.35)
    assert [event["confidence"] for event in of_type("execution.completed")] == [0.6, 0.6]


def test_the_confidence_of_a_pipeline_around_is_left_alone(of_type):
    @fallback(to=with_regex)
    @traced_agent("a")
    def call() -> str:
        raise OSError("x")

    @traced_pipeline("p")
    def run() -> str:
        current_execution().set(confidence=0.8)
        return call()

    run()
    (event,) = of_type("triggered")
    assert event["fallback_confidence"] is None
    (completed,) = of_type("pipeline.completed")
    assert completed["final_confidence"] == 0.8


def test_quality_and_reason_may_be_given(of_type):
    @traced_agent("a")
    @fallback(
        to=lambda: [1],
        when=lambda result: not result,
        reason="llm_unavailable",
        quality_delta_of=lambda primary, backup: len(primary) - len(backup),
    )
    def call() -> list[int]:
        return []

    call()
    (event,) = of_type("triggered")
    assert (event["trigger_reason"], event["quality_delta"]) == ("llm_unavailable", -1)
    assert event["primary_error"] == "the result was not accepted"


def test_a_chain_leaves_an_event_for_each_that_was_tried(recorded):
    def broken() -> str:
        raise ValueError("too")

    @traced_agent("a")
    @fallback(to=[broken, with_regex])
    def call() -> str:
        raise OSError("x")

    call()
    _, first, second, _ = recorded()
    assert (first["fallback_agent"], first["fallback_successful"]) == ("broken", False)
    assert first["fallback_error"] == "ValueError: too"
    assert (second["fallback_agent"], second["fallback_successful"]) == ("with_regex", True)
    assert first["primary_error"] == second["primary_error"] == "OSError: x"


def test_failure_of_all_fallbacks_is_marked(recorded):
    @traced_agent("a")
    @fallback(to=Scripted(ValueError("too")))
    def call() -> str:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        call()
    *_, failed = recorded()
    assert failed["error_message"] == "x"
    assert (failed["fallback_attempted"], failed["fallback_successful"]) == (True, False)


def test_around_agents_the_primary_fails_when_it_happens(recorded):
    @traced_agent("regex_parsing_agent")
    def backup() -> str:
        current_execution().set(confidence=0.5)
        return "backup"

    @fallback(to=backup)
    @traced_agent("parsing_agent")
    def parse() -> str:
        current_execution().set(confidence=0.75)
        raise OSError("x")

    assert parse() == "backup"
    events = recorded()
    assert types(events) == [
        *("execution.started", "execution.failed"),
        *("execution.started", "execution.completed"),
        *("fallback.triggered", "step.completed"),
    ]
    assert len({event["trace_id"] for event in events}) == 1
    failed, event = events[1], events[4]
    assert (failed["fallback_attempted"], failed["fallback_successful"]) == (True, None)
    assert (event["primary_agent"], event["fallback_agent"]) == (
        "parsing_agent",
        "regex_parsing_agent",
    )
    assert (event["fallback_confidence"], event["quality_delta"]) == (0.5, -0.25)
    assert event.get("trace_event_count") is None
    assert events[5]["trace_event_count"] == 6


def test_fallback_around_retry_around_an_agent(recorded, naps):
    @fallback(to=with_regex)
    @retry(2, sleep=naps)
    @traced_agent("a")
    async def call() -> str:
        raise OSError("x")

    assert asyncio.run(call()) == "regex"
    events = recorded()
    assert types(events) == [
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.failed", "step.completed"),
        *("fallback.triggered", "step.completed"),
    ]
    assert events[-2]["trigger_reason"] == "max_retries_exceeded"
    assert events[-2]["primary_agent"] == "a"
    assert [event["step_name"] for event in (events[-3], events[-1])] == ["retry a", "fallback a"]
    assert [event["status"] for event in (events[-3], events[-1])] == ["failed", "success"]
    failed = [event for event in events if event["event_type"].endswith("failed")]
    assert [event["attempt"] for event in failed] == [1, 2]
    assert [event["fallback_attempted"] for event in failed] == [True, True]
    assert len({event["trace_id"] for event in events}) == 1


def test_in_a_pipeline_it_is_part_of_the_run(recorded):
    @fallback(to=with_regex)
    @traced_agent("a")
    def call() -> str:
        raise OSError("x")

    @traced_pipeline("p")
    def run() -> str:
        return call()

    run()
    events = recorded()
    assert types(events)[-3:] == ["fallback.triggered", "step.completed", "pipeline.completed"]
    assert len({event["trace_id"] for event in events}) == 1
    assert [event.get("trace_event_count") for event in events[-3:]] == [None, None, len(events)]


def test_the_span_shows_it(recorded, spans):
    @traced_agent("a")
    @fallback(to=with_regex)
    def call() -> str:
        raise OSError("x")

    call()
    (span,) = spans.get_finished_spans()
    (shown,) = [event for event in span.events if event.name == "fallback_triggered"]
    assert shown.attributes["fallback_agent"] == "with_regex"
    assert shown.attributes["error"] == "OSError: x"


def test_content_is_left_out_when_it_is_not_to_be_captured(sink):
    tracereel.configure(endpoint=sink.url, capture_content=False)
    traced_agent("a")(fallback(to=with_regex)(Scripted(OSError())))()
    tracereel.flush(20.0)
    (event,) = sink.of_type("agent.fallback.triggered")
    assert event["fallback_output_summary"] is None


def test_fallbacks_are_counted_once_per_event(recorded, registry):
    traced_agent("a")(fallback(to=with_regex)(Scripted(OSError())))()
    recorded()
    labels = {"primary_agent": "a", "fallback_agent": "with_regex"}
    assert registry.get_sample_value("agent_fallbacks_total", labels) == 1


def test_cancelling_the_fallback_leaves_its_event(recorded):
    began = asyncio.Event()

    async def slow() -> None:
        began.set()
        await asyncio.Event().wait()

    @traced_agent("a")
    @fallback(to=slow)
    async def call() -> None:
        raise OSError("x")

    async def main() -> None:
        task = asyncio.create_task(call())
        await began.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    _, event, cancelled = recorded()
    assert (event["fallback_successful"], event["fallback_error"]) == (False, "CancelledError")
    assert cancelled["event_type"] == "agent.execution.cancelled"
