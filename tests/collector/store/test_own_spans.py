"""Spans of our own SDK, derived in the store from closing events."""

import json

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tracereel
from tests.support.contract import EXAMPLES, example
from tracereel.testing import EventRecorder
from tracereel_collector.model import Kind

START = 1_769_162_400_000_000_000
CLOSING = {
    "span_id": "a" * 16,
    "parent_span_id": "b" * 16,
    "otel_trace_id": "c" * 32,
    "span_start_unix_nano": START,
    "span_end_unix_nano": START + 5_000_000,
}
COMPLETED = {
    **EXAMPLES[1],
    **CLOSING,
    "span_name": "invoke_agent parsing_agent",
    "service": "shop",
    "session_id": "session-1",
    "user_id": "user-1",
    "attempt": 2,
}
CALLED = {
    "event_id": "evt_call",
    "event_type": "agent.llm.called",
    "timestamp": "2026-01-23T10:00:00Z",
    "trace_id": "t",
    **CLOSING,
    "span_id": "d" * 16,
    "parent_span_id": "a" * 16,
    "span_name": "chat gpt-4o",
    "operation": "chat",
    "status": "failed",
    "duration_ms": 5,
    "llm_provider": "openai",
    "llm_model": "gpt-4o-2024-08-06",
    "llm_model_requested": "gpt-4o",
    "llm_prompt_tokens": 100,
    "llm_completion_tokens": 0,
    "llm_cached_tokens": 20,
    "input_messages": [{"role": "user", "content": 'he said "hi" / ü\n'}],
    "error_type": "RateLimitError",
    "error_message": "slow down",
}


def insert(store, queued, token, *events):
    body = queued(b"\n".join(json.dumps(each).encode() for each in events))
    store.insert(Kind.EVENTS, [body], token=token)


def spans(store, table="otel_traces", order="Timestamp, SpanId"):
    answer = store.select(
        f"SELECT * FROM {table} ORDER BY {order}"
        " SETTINGS output_format_json_quote_64bit_integers = 0",
        {},
        fmt="JSONEachRow",
    )
    return [json.loads(line) for line in answer.splitlines()]


def test_the_event_that_closes_an_execution_is_a_span_with_the_exporters_columns(
    store, queued, token
):
    insert(store, queued, token, EXAMPLES[0], COMPLETED)

    (span,) = spans(store)
    assert span["TraceId"] == "c" * 32
    assert (span["SpanId"], span["ParentSpanId"]) == ("a" * 16, "b" * 16)
    assert (span["SpanName"], span["SpanKind"]) == ("invoke_agent parsing_agent", "Internal")
    assert (span["ServiceName"], span["ResourceAttributes"]) == ("shop", {"service.name": "shop"})
    assert (span["ScopeName"], span["Source"]) == ("tracereel", "event")
    assert (span["Duration"], span["StatusCode"]) == (5_000_000, "Unset")
    attributes = span["SpanAttributes"]
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == attributes["agent.name"] == "parsing_agent"
    assert attributes["gen_ai.conversation.id"] == attributes["session.id"] == "session-1"
    assert attributes["gen_ai.usage.input_tokens"] == "287"
    assert attributes["llm.cost_usd"] == "0.00042"
    assert attributes["tracereel.attempt"] == "2"
    assert (span["CallKind"], span["AgentName"]) == ("agent", "parsing_agent")
    assert (span["InclusiveTokens"], span["InclusiveCostUsd"]) == (423, 0.00042)
    assert (span["TotalTokens"], span["CostUsd"]) == (None, None)


def test_failed_model_call_has_both_models_status_and_exception(store, queued, token):
    insert(store, queued, token, CALLED)

    (span,) = spans(store)
    assert (span["SpanKind"], span["CallKind"]) == ("Client", "llm")
    assert (span["ModelRequested"], span["ModelServed"]) == ("gpt-4o", "gpt-4o-2024-08-06")
    assert (span["PromptTokens"], span["CompletionTokens"]) == (100, 0)
    assert span["CacheReadTokens"] == 20
    assert (span["StatusCode"], span["StatusMessage"]) == ("Error", "RateLimitError: slow down")
    assert span["ErrorType"] == "RateLimitError"
    assert "pipeline.status" not in span["SpanAttributes"]
    assert span["Events.Name"] == ["exception"]
    assert span["Events.Attributes"][0]["exception.message"] == "slow down"
    (content,) = spans(store, "otel_content")
    assert json.loads(content["InputMessages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": 'he said "hi" / ü\n'}]}
    ]


def test_events_without_a_span_of_their_own_make_none(store, queued, token):
    custom = {**COMPLETED, "event_type": "custom.thing"}

    insert(store, queued, token, *EXAMPLES, custom)

    assert spans(store) == []


def test_one_token_makes_the_spans_once(store, queued, token):
    for _ in range(3):
        body = queued(json.dumps(COMPLETED).encode())
        store.insert(Kind.EVENTS, [body], token=token)

    assert len(spans(store, "whole_spans")) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"span_start_unix_nano": 2**63 - 1, "span_end_unix_nano": 0},
        {"span_start_unix_nano": 0},
        {"span_name": ""},
        {"error_type": 'quote " and \\', "agent_name": "\u0000"},
        {"input_messages": [[[[[{}]]]]], "llm_prompt_tokens": 2**63 - 1},
    ],
)
def test_an_odd_closing_event_is_stored_and_stops_nothing(store, queued, token, odd):
    insert(store, queued, token, {**COMPLETED, **odd}, CALLED)

    assert store.rows("SELECT count() FROM agent_events") == [("2",)]
    assert "d" * 16 in [span["SpanId"] for span in spans(store)]


def test_a_retry_is_found_by_the_span_it_happened_in(store, queued, token):
    retry = {**example("agent.retry.attempted"), "span_id": "a" * 16, "otel_trace_id": "c" * 32}

    insert(store, queued, token, retry, COMPLETED)

    (event,) = spans(store, "otel_span_events", "Timestamp")
    assert (event["TraceId"], event["SpanId"]) == ("c" * 32, "a" * 16)
    assert event["Name"] == "retry_attempted"
    assert event["Attributes"]["attempt"] == str(retry["retry_attempt"])
    assert event["Attributes"]["reason"] == retry["retry_reason"]


@pytest.fixture
def both_ways(store, queued, token):
    """Run the SDK so that its spans arrive as events and through the program's exporter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop", "host.name": "h"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    @tracereel.traced_tool("get_weather")
    def weather(city):
        return "sunny"

    @tracereel.traced_llm("gpt-4o", provider="openai")
    def ask(messages):
        tracereel.current_execution().set(
            llm_model="gpt-4o-2024-08-06", llm_prompt_tokens=10, llm_completion_tokens=2
        )
        raise TimeoutError("too slow")

    @tracereel.traced_agent("weather_agent")
    def agent():
        weather("Lima")
        try:
            ask([{"role": "user", "content": "hi"}])
        except TimeoutError:
            return "unknown"

    with EventRecorder(service="shop", tracer_provider=provider) as recorded:
        agent()
    insert(store, queued, token, *recorded.events)
    derived = spans(store)
    body = encode_spans(exporter.get_finished_spans()).SerializeToString()
    store.insert(Kind.SPANS, [queued(body, records=3, kind=Kind.SPANS)], token=token + "s")
    return derived, spans(store), spans(store, "whole_spans")


def test_a_span_that_arrives_both_ways_is_shown_once(both_ways):
    derived, shown, stored = both_ways

    assert len(derived) == 3
    assert len(stored) == 6
    assert [each["SpanId"] for each in shown] == [each["SpanId"] for each in derived]
    assert {each["Source"] for each in shown} == {"otlp"}
    assert {each["ResourceAttributes"]["host.name"] for each in shown} == {"h"}


def test_derived_span_equals_the_exported_one(both_ways):
    derived, shown, _ = both_ways
    same = [
        *("Timestamp", "TraceId", "SpanId", "ParentSpanId", "SpanName", "SpanKind", "ServiceName"),
        *("Duration", "StatusCode", "StatusMessage", "ScopeName", "CallKind", "Provider"),
        *("ModelRequested", "ModelServed", "TotalTokens", "AgentName", "ToolName", "ErrorType"),
    ]

    for ours, exported in zip(derived, shown, strict=True):
        assert {key: ours[key] for key in same} == {key: exported[key] for key in same}
        missing = exported["SpanAttributes"].keys() - ours["SpanAttributes"].keys()
        assert missing == set()


def otlp_body(queued, *versions, records=None):
    """Return one request with several versions of the same span, each with its end and attributes."""
    request = ExportTraceServiceRequest()
    for ended, attributes in versions:
        # Each version has its own resource and scope: the position counts across all of them.
        span = (
            request.resource_spans.add()
            .scope_spans.add()
            .spans.add(
                trace_id=b"t" * 16,
                span_id=b"s" * 8,
                name="work",
                start_time_unix_nano=START,
                end_time_unix_nano=ended,
            )
        )
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
    data = request.SerializeToString()
    return queued(data, records=len(versions), kind=Kind.SPANS)


ENDED = START + 1_000_000


@pytest.mark.parametrize("together", [True, False], ids=["in one request", "one after another"])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "apart"])
@pytest.mark.parametrize(
    "tellings",
    [
        # The displayed version is the one with "shown".
        [(ENDED, {"v": "first"}), (ENDED, {"v": "shown", "more": "x"})],
        [(ENDED, {"v": "first", "more": "x"}), (ENDED + 5, {"v": "shown"})],
        [(START, {"v": "open"}), (ENDED, {"v": "shown"})],
        [(ENDED, {"v": "shown"}), (START, {"v": "told late, still open", "more": "x"})],
        [(0, {"v": "open"}), (0, {"v": "shown"})],
        [(ENDED, {"v": str(number)}) for number in range(60)] + [(ENDED, {"v": "shown"})],
    ],
    ids=["more", "less", "ended", "open-late", "never-ended", "many"],
)
def test_of_a_span_that_came_several_times_the_last_that_has_ended_is_shown(
    store, queued, token, tellings, merged, together
):
    if together:
        store.insert(Kind.SPANS, [otlp_body(queued, *tellings)], token=token)
    else:
        for number, telling in enumerate(tellings[:4] + tellings[-1:]):
            store.insert(Kind.SPANS, [otlp_body(queued, telling)], token=f"{token}{number}")
    if merged:
        store.command("OPTIMIZE TABLE otel_spans FINAL")

    (span,) = spans(store)

    assert span["SpanAttributes"]["v"] == "shown"
