"""tenacity and stamina around a call without a trace around it: the attempts are one run."""

import asyncio
from datetime import datetime

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.sdk.resilience.scripted import Scripted
from tracereel import (
    current_execution,
    traced_agent,
    traced_llm,
    traced_pipeline,
    traced_retrieval,
    traced_step,
    traced_tool,
)
from tracereel.resilience import fixed_delay, instrument_stamina, retry
from tracereel.resilience.stamina import uninstrument_stamina
from tracereel.resilience.tenacity import before_sleep

tenacity = pytest.importorskip("tenacity")
stamina = pytest.importorskip("stamina")
from tests.sdk.resilience import loops  # noqa: E402 - it imports both

EACH_LOOP = pytest.mark.parametrize("loop", loops.LOOPS, ids=lambda loop: loop.__name__)
KINDS = {
    "pipeline": traced_pipeline,
    "llm": traced_llm,
    "tool": traced_tool,
    "step": traced_step,
    "retrieval": traced_retrieval,
}


@pytest.fixture(autouse=True)
def _stamina():
    stamina.instrumentation.set_on_retry_hooks([])
    instrument_stamina()
    yield
    uninstrument_stamina()
    stamina.instrumentation.set_on_retry_hooks(None)


def types(events):
    return [event["event_type"].removeprefix("agent.") for event in events]


def ended(events):
    return [event for event in events if "span_end_unix_nano" in event]


def value(registry, name, **labels):
    return registry.get_sample_value(name, labels) or 0.0


@EACH_LOOP
def test_the_attempts_are_executions_of_one_run(recorded, registry, loop):
    script = Scripted(OSError("x"), TimeoutError("y"), "done")
    assert loop(traced_agent("a")(lambda: script())) == "done"
    events = recorded()
    assert types(events) == [
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.completed"),
    ]
    for name in ("trace_id", "otel_trace_id", "agent_name"):
        assert len({event[name] for event in events}) == 1, name
    assert len({event["request_id"] for event in events if "request_id" in event}) == 1
    assert len({event["execution_id"] for event in ended(events)}) == 3

    first, second = [event for event in events if event["event_type"] == "agent.retry.attempted"]
    assert (first["retry_attempt"], second["retry_attempt"]) == (1, 2)
    assert (first["original_error"], second["original_error"]) == ("OSError: x", "TimeoutError: y")
    assert (first["retry_reason"], second["retry_reason"]) == ("error", "timeout")
    assert first["delay_seconds"] == pytest.approx(0.001)
    due, told = (datetime.fromisoformat(first[name]) for name in ("next_retry_at", "timestamp"))
    assert abs((due - told).total_seconds()) < 60
    assert first["retry_successful"] is None

    assert [event.get("attempt") for event in ended(events)] == [None, 2, 3]
    assert [event["retry_count"] for event in ended(events)] == [0, 1, 2]
    assert [event["was_retried"] for event in ended(events)] == [False, True, True]
    labels = {"agent_name": "a"}
    assert value(registry, "agent_retries_total", **labels, retry_reason="error") == 1
    assert value(registry, "tracereel_agent_attempts_total", **labels) == 3
    executions = {
        status: value(registry, "agent_executions_total", **labels, status=status)
        - value(registry, "tracereel_agent_repeated_executions_total", **labels, status=status)
        for status in ("success", "failed")
    }
    assert executions == {"success": 1, "failed": 0}
    assert not value(registry, "tracereel_sdk_events_dropped_total", reason="no_execution")


@EACH_LOOP
def test_the_last_event_has_the_final_count_and_every_execution_counts_its_own(recorded, loop):
    script = Scripted(OSError("x"), "done")
    loop(traced_agent("a")(lambda: script()))
    events = recorded()
    assert [event["trace_seq"] for event in events] == [1, 2, 3, 4, 5]
    # The last event closes the run; no earlier one has a higher count.
    assert [event.get("trace_event_count") for event in events] == [None, 2, 3, None, 5]
    assert [event["event_index"] for event in events] == [0, 1, 2, 0, 1]
    assert [events[2][name] for name in ("execution_id", "span_id")] == [
        events[1][name] for name in ("execution_id", "span_id")
    ]


def test_runs_opened_and_closed_agree(recorded, registry):
    script = Scripted(OSError("x"), "done")
    loops.tenacity_decorator(traced_agent("a")(lambda: script()))
    recorded()
    stages = [value(registry, "tracereel_sdk_runs_total", stage=s) for s in ("opened", "closed")]
    assert stages[0] == stages[1] > 0


@EACH_LOOP
def test_an_operation_that_fails_in_the_end_is_closed_by_its_last_failure(recorded, registry, loop):
    def body() -> None:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        loop(traced_agent("a")(body))
    events = recorded()
    assert types(events)[-2:] == ["execution.started", "execution.failed"]
    assert (events[-1]["trace_event_count"], len(events)) == (8, 8)
    assert (events[-1]["retry_count"], events[-1]["attempt"]) == (2, 3)
    labels = {"agent_name": "a", "status": "failed"}
    assert value(registry, "agent_executions_total", **labels) == 3
    assert value(registry, "tracereel_agent_repeated_executions_total", **labels) == 2


@pytest.mark.parametrize("kind", KINDS)
@EACH_LOOP
def test_other_calls_continue_their_run_too(recorded, loop, kind):
    script = Scripted(OSError("x"), "done")
    assert loop(KINDS[kind]("n")(lambda: script())) == "done"
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert [event["trace_seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["trace_event_count"] == len(events)
    assert types(events).count("retry.attempted") == 1
    first, last = ended(events)
    assert "was_retried" not in first
    assert (last["was_retried"], last["retry_count"], last["attempt"]) == (True, 1, 2)
    assert last["repeats_execution_id"] == first["execution_id"]
    assert last["repeats_status"] == "failed"


@EACH_LOOP
def test_a_function_that_calls_an_agent_is_retried_alike(recorded, loop):
    script = Scripted(OSError("x"), "done")
    agent = traced_agent("a")(lambda: script())

    def call() -> str:
        try:
            return agent()
        except OSError as error:
            raise RuntimeError("in other words") from error

    assert loop(call) == "done"
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert events[2]["original_error"] == "RuntimeError: in other words"
    assert events[-1]["repeats_execution_id"] == events[0]["execution_id"]


@EACH_LOOP
def test_a_block_is_retried_alike(recorded, loop):
    script = Scripted(OSError("x"), "done")

    def call() -> str:
        with traced_agent("a"):
            return script()

    assert loop(call) == "done"
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert events[-1]["retry_count"] == 1


def test_the_agents_of_a_pipeline_that_is_tried_again_are_repeated(recorded):
    script = Scripted(OSError("x"), "done")
    first, second = traced_agent("first")(lambda: 1), traced_agent("second")(lambda: script())
    loops.tenacity_decorator(traced_pipeline("p")(lambda: (first(), second())))
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    failed, closed = [e for e in events if e["event_type"] == "agent.pipeline.completed"]
    assert (failed["status"], closed["status"]) == ("failed", "success")
    assert (closed["agents_executed"], closed["agents_failed"], closed["agents_retried"]) == (
        2,
        0,
        1,
    )


def test_a_result_that_tenacity_refuses(recorded, registry):
    sure = Scripted(0.2, 0.9)

    @tenacity.retry(
        retry=tenacity.retry_if_result(lambda confidence: confidence < 0.5),
        before_sleep=before_sleep(),
    )
    @traced_agent("a")
    def call() -> float:
        current_execution().set(confidence=sure())
        return current_execution().notes["confidence"]

    assert call() == 0.9
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert events[2]["retry_reason"] == "low_confidence"
    assert events[-1]["retry_count"] == 1
    assert events[-1]["repeats_status"] == "success"
    labels = {"agent_name": "a", "status": "success"}
    assert value(registry, "agent_executions_total", **labels) == 2
    assert value(registry, "tracereel_agent_repeated_executions_total", **labels) == 1


def test_an_attempt_that_is_stopped_for_taking_too_long(recorded):
    slow = Scripted(True, False)

    @traced_agent("a")
    async def call() -> str:
        if slow():
            await asyncio.Event().wait()
        return "done"

    @tenacity.retry(before_sleep=before_sleep())
    async def limited() -> str:
        return await asyncio.wait_for(call(), 0.01 if not slow.calls else 30)

    assert asyncio.run(limited()) == "done"
    events = recorded()
    assert types(events)[:3] == ["execution.started", "execution.cancelled", "retry.attempted"]
    assert events[2]["retry_reason"] == "timeout"
    assert len({event["trace_id"] for event in events}) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_generators_retried_by_stamina_are_one_run(recorded, asynchronous):
    script = Scripted(OSError("x"), "done")
    again = stamina.retry(on=OSError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0)

    @again
    @traced_agent("a")
    def items():
        yield 1
        yield script()

    @again
    @traced_agent("a")
    async def items_later():
        yield 1
        yield script()

    async def collect():
        return [item async for item in items_later()]

    found = asyncio.run(collect()) if asynchronous else list(items())
    assert found == [1, 1, "done"]
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert events[-1]["retry_count"] == 1


def test_a_trace_id_that_the_program_gives_is_kept(recorded):
    script = Scripted(OSError("x"), "done")
    agent = traced_agent("a")(lambda **_ids: script())
    loops.stamina_decorator(lambda: agent(trace_id="trc_main_abc123"))
    events = recorded()
    assert {event["trace_id"] for event in events} == {"trc_main_abc123"}
    assert len({event["otel_trace_id"] for event in events}) == 1


def test_the_spans_are_of_one_trace(recorded, spans):
    script = Scripted(OSError("x"), OSError("y"), "done")
    loops.tenacity_decorator(traced_agent("a")(lambda: script()))
    first, second, third = spans.get_finished_spans()
    assert first.parent is None
    assert {second.parent.span_id, third.parent.span_id} <= {
        first.context.span_id,
        second.context.span_id,
    }
    assert len({span.context.trace_id for span in (first, second, third)}) == 1
    # In the events they are siblings, as under our own retry.
    assert {event["parent_span_id"] for event in recorded()} == {None}


def test_under_a_span_of_the_program_all_hang_there(recorded, spans):
    script = Scripted(OSError("x"), "done")
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("program")
    with tracer.start_as_current_span("request") as request:
        loops.stamina_decorator(traced_agent("a")(lambda: script()))
    parents = {span.parent.span_id for span in spans.get_finished_spans()}
    assert parents == {request.get_span_context().span_id}
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert events[-1]["trace_event_count"] == len(events) == 5


def test_around_a_retry_of_ours(recorded):
    script = Scripted(OSError(1), OSError(2), OSError(3), "done")
    ours = retry(2, strategy=fixed_delay(0))
    assert loops.tenacity_decorator(ours(traced_agent("a")(lambda: script()))) == "done"
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert types(events).count("retry.attempted") == 3
    assert events[-1]["trace_event_count"] == len(events)


def test_a_loop_within_a_loop(recorded):
    inner, outer = Scripted(OSError(1), "in", OSError(2), "in"), Scripted(OSError(3), "done")
    helper, agent = traced_agent("helper")(lambda: inner()), traced_agent("a")(lambda: outer())

    def flow() -> str:
        loops.stamina_decorator(helper)
        return agent()

    assert loops.tenacity_decorator(flow) == "done"
    traces = {}
    for event in recorded():
        traces.setdefault(event["trace_id"], []).append(event)
    shown = [(events[0]["agent_name"], types(events)) for events in traces.values()]
    again = [
        *("execution.started", "execution.failed", "retry.attempted"),
        *("execution.started", "execution.completed"),
    ]
    assert shown == [("helper", again), ("a", again), ("helper", again)]
