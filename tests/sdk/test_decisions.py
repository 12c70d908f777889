"""Decisions are events of the agent that took them, span events and log lines."""

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import record_decision, traced_agent, traced_pipeline

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


def test_what_is_not_given_is_null(recorded: Deliver, sink: IngestSink) -> None:
    traced_agent("a")(lambda: record_decision("d"))()
    recorded()
    (event,) = sink.of_type("agent.decision.recorded")
    for key in ("decision_category", "reasoning", "confidence", "input_data", "candidates"):
        assert event[key] is None


def test_between_agents_the_pipeline_decides(recorded: Deliver, sink: IngestSink) -> None:
    traced_pipeline("booking")(lambda: record_decision("route"))()
    recorded()
    assert sink.of_type("agent.decision.recorded")[0]["agent_name"] == "booking"


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
