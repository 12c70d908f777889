"""Calls are spans among the program's own, with both attribute vocabularies."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_execution,
    traced_agent,
    traced_llm,
    traced_pipeline,
    traced_retrieval,
    traced_step,
    traced_tool,
)

Deliver = Callable[[], list[dict[str, Any]]]


class CodedError(Exception):
    code = "LLM_TIMEOUT"


class OwnError(Exception):
    pass


def test_nested_agents_share_the_trace_and_nest_their_spans(
    recorded: Deliver, spans: InMemorySpanExporter
) -> None:
    @traced_agent("inner")
    async def inner() -> str:
        return "x"

    @traced_agent("outer")
    async def outer() -> str:
        return await inner()

    asyncio.run(outer())
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert len({event["request_id"] for event in events}) == 1
    outer_started, inner_started, _, outer_completed = events
    assert inner_started["parent_span_id"] == outer_started["span_id"]
    assert [event.get("trace_event_count") for event in events] == [None, None, None, 4]
    assert [event["trace_seq"] for event in events] == [1, 2, 3, 4]
    by_name = {span.name: span for span in spans.get_finished_spans()}
    inner_span, outer_span = by_name["invoke_agent inner"], by_name["invoke_agent outer"]
    assert inner_span.parent is not None
    assert inner_span.parent.span_id == outer_span.context.span_id
    assert f"{outer_span.context.trace_id:032x}" == outer_completed["otel_trace_id"]
    assert outer_span.start_time == outer_completed["span_start_unix_nano"]
    assert outer_span.end_time == outer_completed["span_end_unix_nano"]


def test_a_span_carries_both_vocabularies(spans: InMemorySpanExporter, recorded: Deliver) -> None:
    @traced_agent("a", version="2", llm_provider="qwen", llm_model="m", temperature=0.5)
    def agent() -> None:
        execution = current_execution()
        assert execution is not None
        execution.set(llm_prompt_tokens=5, confidence=0.25)

    agent()
    recorded()
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert attributes.pop("trace_id") == f"{span.context.trace_id:032x}"
    assert attributes.pop("tracereel.request_id").startswith("req_")
    assert attributes.pop("tracereel.execution_id").startswith("exe_")
    assert attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "agent.name": "a",
        "gen_ai.agent.version": "2",
        "agent.version": "2",
        "gen_ai.provider.name": "qwen",
        "llm.provider": "qwen",
        "gen_ai.request.model": "m",
        "llm.model": "m",
        "gen_ai.request.temperature": 0.5,
        "llm.temperature": 0.5,
        "gen_ai.usage.input_tokens": 5,
        "agent.confidence": 0.25,
    }


def test_a_span_nests_under_the_programs_own(
    spans: InMemorySpanExporter, recorded: Deliver
) -> None:
    own = TracerProvider(shutdown_on_exit=False).get_tracer("program")
    with own.start_as_current_span("request") as around:
        traced_agent("a")(lambda: None)()
    ids = around.get_span_context()
    started = recorded()[0]
    assert started["trace_id"] == f"{ids.trace_id:032x}"
    assert started["parent_span_id"] == f"{ids.span_id:016x}"


def test_sibling_runs_in_one_opentelemetry_trace_continue_the_count(recorded: Deliver) -> None:
    agent = traced_agent("a")(lambda: None)
    with TracerProvider(shutdown_on_exit=False).get_tracer("p").start_as_current_span("request"):
        agent()
        agent()
    assert [event["trace_seq"] for event in recorded()] == [1, 2, 3, 4]


def test_a_failure_is_an_error_on_the_span(spans: InMemorySpanExporter, recorded: Deliver) -> None:
    @traced_agent("a")
    def fail() -> None:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fail()
    recorded()
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
    assert (span.attributes or {})["error.type"] == "ValueError"


def test_a_no_op_provider_still_gives_events_with_ids(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    provider = trace.NoOpTracerProvider()
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    inner = traced_agent("inner")(lambda: None)
    traced_agent("outer")(lambda: inner())()
    tracereel.flush()
    assert len({event["trace_id"] for event in sink.events}) == 1
    assert len({event["span_id"] for event in sink.events}) == 2


def test_the_global_provider_is_never_set(recorded: Deliver) -> None:
    traced_agent("a")(lambda: None)()
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def test_only_pipelines_have_a_pipeline_status(
    spans: InMemorySpanExporter, recorded: Deliver
) -> None:
    @traced_pipeline("p")
    @traced_agent("a")
    @traced_step("s")
    @traced_retrieval("r")
    @traced_llm("m")
    @traced_tool("t")
    def run() -> None:
        pass

    run()
    events = recorded()
    assert sum("status" in event for event in events) == 5
    found = {
        span.name: span.attributes.get("pipeline.status")
        for span in spans.get_finished_spans()
        if span.attributes is not None
    }
    assert len(found) == 6
    assert {name for name, status in found.items() if status} == {"invoke_workflow p"}
