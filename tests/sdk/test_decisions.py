"""Decisions are recorded as events of their agent, span events and log lines."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_decision,
    record_decision,
    traced_agent,
    traced_decision,
    traced_pipeline,
    traced_tool,
)

Deliver = Callable[[], list[dict[str, Any]]]


def test_a_decision_carries_everything_given(recorded: Deliver, sink: IngestSink) -> None:
    @traced_agent("temporal_agent")
    def decide() -> str:
        return record_decision(
            "temporal_resolution",
            category="resolution",
            reasoning="relative date",
            confidence=1.0,
            input_data={"date": "tomorrow"},
            output_data={"date": "2026-01-23"},
            duration_ms=149.6,  # type: ignore[arg-type]
            was_cached=True,
            cache_hit_key="k",
            candidates=["a", "b"],
            chosen="b",
        )

    decision_id = decide()
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    (started,) = sink.of_type("agent.execution.started")
    expected = {
        "agent_name": "temporal_agent",
        "decision_id": decision_id,
        "decision_type": "temporal_resolution",
        "decision_category": "resolution",
        "reasoning": "relative date",
        "confidence": 1.0,
        "input_data": {"date": "tomorrow"},
        "output_data": {"date": "2026-01-23"},
        "decision_duration_ms": 150,
        "was_cached": True,
        "cache_hit_key": "k",
        "candidates": ["a", "b"],
        "chosen": "b",
        "trace_id": started["trace_id"],
        "span_id": started["span_id"],
        "execution_id": started["execution_id"],
    }
    assert expected == {key: event[key] for key in expected}


def test_omitted_decision_fields_are_null(recorded: Deliver, sink: IngestSink) -> None:
    traced_agent("a")(lambda: record_decision("d"))()
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    for key in ("decision_category", "reasoning", "confidence", "input_data", "candidates"):
        assert event[key] is None


def test_between_agents_the_pipeline_decides(recorded: Deliver, sink: IngestSink) -> None:
    traced_pipeline("booking")(lambda: record_decision("route"))()
    recorded()
    assert sink.of_type("agent.decision.recorded")[0]["agent_name"] is None


def test_outside_everything_it_is_dropped_and_counted(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    assert record_decision("d").startswith("dec_")
    assert recorded() == []
    assert tracereel.flush().dropped == 1
    labels = {"reason": "no_execution"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 1


def test_switched_off_it_still_gives_an_id() -> None:
    tracereel.configure(enabled=False)
    assert record_decision("d").startswith("dec_")


def test_impossible_values_are_left_out(recorded: Deliver, sink: IngestSink) -> None:
    def decide() -> None:
        record_decision(
            7,  # type: ignore[arg-type]
            confidence=7,
            duration_ms=-1,
            input_data=[1, 2],  # type: ignore[arg-type]
            candidates="ab",
            was_cached="yes",  # type: ignore[arg-type]
        )

    traced_agent("a")(decide)()
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    assert (event["decision_type"], event["confidence"], event["decision_duration_ms"]) == (
        "7",
        None,
        None,
    )
    assert (event["input_data"], event["candidates"]) == ({"value": [1, 2]}, ["ab"])
    assert event["was_cached"] is False


def test_the_span_shows_it(sink: IngestSink, registry: CollectorRegistry) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    traced_agent("a")(lambda: record_decision("extraction", confidence=0.92))()
    (event,) = exporter.get_finished_spans()[0].events
    assert event.name == "decision_recorded"
    attributes = dict(event.attributes or {})
    assert attributes.pop("decision_id")
    assert attributes == {"decision_type": "extraction", "confidence": 0.92}


@dataclass
class Choice:
    chosen: str
    confidence: float


@traced_decision("slot_choice", category="resolution", candidates=["ten", "eleven"])
def choose(wanted: str) -> Choice:
    current_decision().set(reasoning="it is free")
    return Choice(wanted, 0.75)


def test_what_a_decision_function_returns_is_the_output(
    recorded: Deliver, sink: IngestSink
) -> None:
    assert traced_agent("a")(lambda: choose("ten"))() == Choice("ten", 0.75)
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    expected = {
        "agent_name": "a",
        "decision_type": "slot_choice",
        "decision_category": "resolution",
        "input_data": {"wanted": "ten"},
        "output_data": {"chosen": "ten", "confidence": 0.75},
        "candidates": ["ten", "eleven"],
        "chosen": "ten",
        "confidence": 0.75,
        "reasoning": "it is free",
        "was_cached": False,
    }
    assert expected == {key: event[key] for key in expected}
    assert event["decision_duration_ms"] >= 0


def test_decisions_of_coroutines_methods_and_blocks(recorded: Deliver, sink: IngestSink) -> None:
    class Agent:
        @traced_decision("route")
        async def route(self, prompt: str) -> str:
            await asyncio.sleep(0)
            return "sales"

        @traced_agent("router")
        async def run(self) -> None:
            assert await self.route("hi") == "sales"
            with traced_decision("merge") as decision:
                decision.set(chosen="b", candidates=["a", "b"], was_cached=True, cache_hit_key="k")

    asyncio.run(Agent().run())
    recorded()
    route, merge = sink.of_type("agent.decision.recorded")
    assert (route["input_data"], route["output_data"]) == ({"prompt": "hi"}, {"value": "sales"})
    assert (merge["chosen"], merge["was_cached"], merge["cache_hit_key"]) == ("b", True, "k")
    (completed,) = sink.of_type("agent.execution.completed")
    assert merge["execution_id"] == route["execution_id"] == completed["execution_id"]


def test_a_decision_function_that_raises_has_not_decided(
    recorded: Deliver, sink: IngestSink
) -> None:
    @traced_decision("d")
    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        traced_agent("a")(fail)()
    recorded()
    assert sink.of_type("agent.decision.recorded") == []


def test_a_decision_inside_a_tool_is_the_agents(recorded: Deliver, sink: IngestSink) -> None:
    tool = traced_tool("t")(lambda: record_decision("d"))
    traced_agent("a")(lambda: tool())()
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    (call,) = sink.of_type("agent.tool.called")
    assert (event["agent_name"], event["span_id"]) == ("a", call["span_id"])


def test_switched_off_or_outside_decision_functions_still_decide() -> None:
    tracereel.configure(enabled=False)
    assert choose("ten").chosen == "ten"
    with traced_decision("d") as decision:
        decision.set(chosen=1)
    assert traced_decision("d")(classmethod(lambda cls: cls)).__func__(int) is int  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="takes a type"):
        traced_decision("")
    with pytest.raises(TypeError, match="generator"):
        traced_decision("d")(lambda: (yield))


def test_tasks_that_share_a_decision_block_record_their_own_decision(recorded: Deliver) -> None:
    shared = traced_decision("route")

    async def succeed(entered: asyncio.Event) -> None:
        with shared as decision:
            decision.set(chosen="success")
            await entered.wait()

    async def fail(entered: asyncio.Event) -> None:
        with shared as decision:
            decision.set(chosen="failure")
            entered.set()
            await asyncio.sleep(0)  # the other task leaves first
            raise LookupError("none fits")

    @traced_agent("a")
    async def agent() -> None:
        entered = asyncio.Event()
        await asyncio.gather(succeed(entered), fail(entered), return_exceptions=True)

    asyncio.run(agent())

    decisions = [each for each in recorded() if each["event_type"] == "agent.decision.recorded"]
    assert [each["chosen"] for each in decisions] == ["success"]
