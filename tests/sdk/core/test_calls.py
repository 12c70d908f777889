"""Models, tools, steps and searches are spans and events of their execution."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_execution,
    record_decision,
    traced_agent,
    traced_llm,
    traced_pipeline,
    traced_retrieval,
    traced_step,
    traced_tool,
)

Deliver = Callable[[], list[dict[str, Any]]]


def subset(event: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {key: event[key] for key in expected}


def test_a_call_of_a_model(recorded: Deliver, sink: IngestSink) -> None:
    @traced_llm("qwen-2.5", provider="qwen", temperature=0.3)
    def complete(prompt: str, *, max_tokens: int) -> dict[str, str]:
        current_execution().set(
            llm_model="qwen-2.5-0711",
            llm_prompt_tokens=10,
            llm_completion_tokens=4,
            llm_cost_usd=0.01,
            finish_reason="stop",
            confidence=0.5,
        )
        return {"text": "hello"}

    @traced_agent("a")
    def agent() -> None:
        complete("hi", max_tokens=50)
        complete("hi", max_tokens=50)

    agent()
    events = recorded()
    started, call, _, completed = events
    expected = {
        "event_type": "agent.llm.called",
        "agent_name": "a",
        "execution_id": started["execution_id"],
        "parent_span_id": started["span_id"],
        "request_id": started["request_id"],
        "operation": "chat",
        "llm_provider": "qwen",
        "llm_model": "qwen-2.5-0711",
        "llm_model_requested": "qwen-2.5",
        "temperature": 0.3,
        "max_tokens": 50,
        "status": "success",
        "was_streamed": False,
        "time_to_first_token_ms": None,
        "llm_tokens_used": 14,
        "finish_reason": "stop",
        "input_messages": ["hi"],
        "output_messages": [{"text": "hello"}],
        "span_name": "chat qwen-2.5",
    }
    assert subset(call, expected) == expected
    expected = {
        "llm_prompt_tokens": 20,
        "llm_completion_tokens": 8,
        "llm_tokens_used": 28,
        "llm_cost_usd": 0.02,
        "confidence": 0.5,
    }
    assert subset(completed, expected) == expected
    assert [event["event_index"] for event in events] == [0, 1, 2, 3]


def test_a_tool_is_recorded_once_per_call_id(
    recorded: Deliver, sink: IngestSink, registry: CollectorRegistry
) -> None:
    calls: list[str] = []

    @traced_tool("lookup", tool_type="function")
    def lookup(name: str, tool_call_id: str | None = None) -> list[str]:
        calls.append(name)
        return [name]

    @traced_agent("a")
    def agent() -> None:
        lookup("x", "call_1")
        lookup("x", tool_call_id="call_1")
        lookup("y", "call_2")
        lookup("z")
        lookup("z")

    agent()
    agent()
    recorded()
    events = sink.of_type("agent.tool.called")
    assert len(calls) == 10
    assert [event["tool_call_id"] for event in events] == ["call_1", "call_2", None, None] * 2
    expected = {
        "tool_name": "lookup",
        "tool_type": "function",
        "arguments": {"name": "x", "tool_call_id": "call_1"},
        "result": ["x"],
        "result_summary": "['x']",
        "result_size_bytes": len(b'["x"]'),
        "status": "success",
        "span_name": "execute_tool lookup",
    }
    assert subset(events[0], expected) == expected
    completed = sink.of_type("agent.execution.completed")
    assert [event["duplicate_tool_calls"] for event in completed] == [1, 1]
    labels = {"reason": "duplicate_tool_call"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 2
    assert [event["event_index"] for event in sink.events] == [0, 1, 2, 3, 4, 5] * 2


def test_a_failed_tool_may_be_tried_again_under_its_id(recorded: Deliver, sink: IngestSink) -> None:
    @traced_tool("t")
    def tool(call_id: str, *, fails: bool) -> None:
        if fails:
            raise ValueError("no")

    @traced_agent("a")
    def agent() -> None:
        for fails in (True, False, False):
            try:
                tool("c", fails=fails)
            except ValueError:
                pass

    agent()
    recorded()
    calls = sink.of_type("agent.tool.called")
    assert [event["status"] for event in calls] == ["failed", "success"]
    expected = {
        "error_type": "ValueError",
        "error_category": "validation",
        "stage": "tool_execution",
    }
    assert subset(calls[0], expected) == expected


def test_a_step_is_the_stage_of_what_fails_inside(recorded: Deliver, sink: IngestSink) -> None:
    @traced_step("json_parse", step_type="parsing")
    def parse(text: str) -> int:
        return int(text)

    @traced_agent("a")
    def agent(text: str) -> int:
        return parse(text)

    agent("1")
    with pytest.raises(ValueError, match="invalid literal"):
        agent("x")
    recorded()
    good, bad = sink.of_type("agent.step.completed")
    expected = {
        "step_name": "json_parse",
        "step_type": "parsing",
        "status": "success",
        "input_summary": "text: '1'",
        "output_summary": "1",
        "span_name": "step json_parse",
    }
    assert subset(good, expected) == expected
    assert (bad["status"], bad["stage"], bad["error_type"]) == (
        "failed",
        "json_parse",
        "ValueError",
    )
    (failed,) = sink.of_type("agent.execution.failed")
    assert (failed["stage"], failed["propagated"]) == ("json_parse", False)


def test_spans_have_opentelemetrys_names(sink: IngestSink, registry: CollectorRegistry) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    with traced_pipeline("p"), traced_agent("a"):
        for each in (traced_llm("m"), traced_tool("t", tool_call_id="c"), traced_step("s")):
            with each:
                pass
        with traced_retrieval("r", top_k=3):
            pass
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "chat m",
        "execute_tool t",
        "step s",
        "retrieval r",
        "invoke_agent a",
        "invoke_workflow p",
    ]
    assert [span.kind.name for span in spans[:2]] == ["CLIENT", "INTERNAL"]
    attributes = dict(spans[1].attributes or {})
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert (attributes["gen_ai.tool.name"], attributes["gen_ai.tool.call.id"]) == ("t", "c")


def test_retries_and_fallbacks_show_on_the_span(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    with traced_agent("a") as execution:
        execution.emit(
            {
                "event_type": "agent.retry.attempted",
                "agent_name": "a",
                "retry_attempt": 2,
                "original_error": "timeout",
                "retry_reason": "timeout",
                "retry_strategy": "fixed_delay",
                "delay_seconds": 4.0,
                "next_retry_at": "2026-01-23T10:00:39Z",
                "retry_successful": None,
            }
        )
    (event,) = exporter.get_finished_spans()[0].events
    assert event.name == "retry_attempted"
    expected = {"attempt": 2, "error": "timeout", "reason": "timeout", "delay_seconds": 4.0}
    assert dict(event.attributes or {}) == expected
    tracereel.flush()
    assert sink.of_type("agent.retry.attempted")[0]["event_index"] == 1


def test_a_thousand_executions_at_once_never_mix(recorded: Deliver) -> None:
    tool = traced_tool("t")(lambda call_id: call_id)

    @traced_llm("m")
    async def complete(number: int) -> None:
        await asyncio.sleep(0)
        current_execution().set(llm_tokens_used=number)

    @traced_agent("a")
    async def agent(number: int, session_id: str) -> int:
        for _ in range(2):
            await complete(number)
            tool("same id everywhere")
        record_decision("d", reasoning=str(number))
        current_execution().set(reasoning=str(number))
        await asyncio.sleep(0)
        return number

    async def main() -> None:
        await asyncio.gather(*(agent(number, f"s{number}") for number in range(1000)))

    asyncio.run(main())
    executions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in recorded():
        executions[event["execution_id"]].append(event)
    assert len(executions) == 1000
    for events in executions.values():
        assert [event["event_index"] for event in events] == [0, 1, 2, 3, 4, 5]
        completed = events[-1]
        number = int(completed["reasoning"])
        assert completed["llm_tokens_used"] == 2 * number
        assert completed["duplicate_tool_calls"] == 1
        assert {event["session_id"] for event in events} == {f"s{number}"}
        assert events[4]["reasoning"] == str(number)


def test_rounds_and_their_limit_are_recorded(recorded: Deliver, sink: IngestSink) -> None:
    @traced_agent("looper")
    def agent(enough: int, *, raises: bool = False) -> int:
        for number in current_execution().rounds(limit=3):
            if number == enough:
                return number
        if raises:
            raise RuntimeError("no answer")
        return 0

    assert agent(2) == 2
    assert agent(9) == 0
    with pytest.raises(RuntimeError):
        agent(9, raises=True)
    with traced_agent("manual") as execution:
        for _ in range(2):
            execution.round(limit=2)
    recorded()
    ended = [event for event in sink.events if "rounds" in event]
    assert [(event["rounds"], event["round_limit"]) for event in ended] == [
        (2, 3),
        (3, 3),
        (3, 3),
        (2, 2),
    ]
    codes = [event.get("end_code") or event.get("error_code") for event in ended]
    assert codes == [None, "ITERATION_LIMIT_REACHED", "ITERATION_LIMIT_REACHED", None]
    tracereel.configure(enabled=False)
    assert list(current_execution().rounds(limit=2)) == [1, 2]


def test_switched_off_everything_can_still_be_called() -> None:
    tracereel.configure(enabled=False)
    execution = current_execution()
    assert not execution
    execution.set(confidence=0.5, llm_tokens_used=3)
    execution.add_usage(prompt_tokens=1)
    execution.set_output("x")
    execution.round(limit=1)
    execution.emit({"event_type": "custom.x"})
    assert execution.notes == {}
    with traced_agent("a") as inside, traced_tool("t"):
        inside.set(confidence=1.0)
    assert list(traced_agent("a")(lambda: (yield 1))()) == [1]


def test_a_plain_function_around_a_coroutine_ends_when_the_coroutine_does(
    recorded: Deliver,
) -> None:
    """As with a sync decorator or a lambda between ours and the coroutine function."""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ConnectionError("gone")

    agent = tracereel.traced_agent("a")(lambda: fails())

    with pytest.raises(ConnectionError):
        asyncio.run(agent())

    assert [event["event_type"] for event in recorded()] == [
        "agent.execution.started",
        "agent.execution.failed",
    ]


@pytest.mark.parametrize(
    "thing", [int, property(), 3, None], ids=["class", "property", "number", "nothing"]
)
def test_decorating_a_non_function_is_refused(thing: object) -> None:
    with pytest.raises(TypeError, match="only functions and methods"):
        tracereel.traced_agent("a")(thing)  # type: ignore[arg-type]


def test_values_that_parameters_have_without_being_given_are_seen(
    recorded: Deliver, sink: IngestSink
) -> None:
    class Agent:
        @traced_agent("a")
        def run(self, prompt: str, days: int = 3, *, mood: str = "calm", **more: Any) -> None:
            if more:
                raise OSError

    Agent().run("x")
    Agent().run("x", 4, mood="brisk")
    with pytest.raises(OSError):  # noqa: PT011
        Agent().run(days=5, prompt="x", extra=1)
    recorded()
    assert [event["input_summary"] for event in sink.of_type("agent.execution.started")] == [
        "prompt: 'x', days: 3, mood: 'calm'",
        "prompt: 'x', days: 4, mood: 'brisk'",
        "days: 5, prompt: 'x', extra: 1, mood: 'calm'",
    ]
    (failed,) = sink.of_type("agent.execution.failed")
    assert failed["input_at_error"] == {"days": 5, "prompt": "x", "extra": 1, "mood": "calm"}


def test_what_is_given_as_null_is_not_replaced_by_its_default(
    recorded: Deliver, sink: IngestSink
) -> None:
    @traced_retrieval("r")
    def search(query: str, top_k: int | None = 7) -> list[str]:
        return []

    search("q", None)
    search("q", top_k=None)
    recorded()
    assert [e["top_k"] for e in sink.of_type("agent.retrieval.completed")] == [None, None]
