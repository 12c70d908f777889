"""Privacy rules apply to exported spans of other instrumentations."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.otlp_sink import OtlpSink


@pytest.fixture
def otlp() -> Iterator[OtlpSink]:
    with OtlpSink() as running:
        yield running


def test_secrets_do_not_leave(otlp: OtlpSink, registry: CollectorRegistry) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracereel.configure(endpoint=otlp.url, tracer_provider=provider, registry=registry)
    with provider.get_tracer("library").start_as_current_span("GET") as span:
        span.set_attributes(
            {
                "http.request.header.authorization": ["Bearer abcdefghijklmnop1234567890"],
                "db.password": "hunter2hunter2",
                "note": "mail jane.doe@example.com",
                "plain": "nothing to hide",
                "count": 3,
            }
        )
        span.add_event("sent", {"to": "jane.doe@example.com"})
        span.record_exception(ValueError("jane.doe@example.com is taken"))
    tracereel.flush(20.0)

    (sent,) = otlp.spans
    text = str(sent)
    assert "jane.doe" not in text
    assert "hunter2" not in text
    assert "abcdefghij" not in text
    assert otlp.attributes("GET")["plain"] == "nothing to hide"
    assert "is taken" in text


def test_links_and_nested_values_are_cleaned_and_lost_ones_stay_counted(
    otlp: OtlpSink, registry: CollectorRegistry
) -> None:
    provider = TracerProvider(
        shutdown_on_exit=False,
        span_limits=SpanLimits(
            max_span_attributes=2, max_events=1, max_links=1, max_event_attributes=1
        ),
    )
    tracereel.configure(endpoint=otlp.url, tracer_provider=provider, registry=registry)
    linked = trace.SpanContext(1, 2, is_remote=True)
    mail = {"to": "jane.doe@example.com"}
    with provider.get_tracer("library").start_as_current_span(
        "for jane.doe@example.com", links=[trace.Link(linked, mail), trace.Link(linked, mail)]
    ) as span:
        span.set_attributes({"a": 1, "b": 2, "c": ["jane.doe@example.com", "plain"]})
        span.add_event("first")
        span.add_event("second", {"lost": 1, **mail})
        span.set_status(trace.StatusCode.ERROR, "no jane.doe@example.com here")
    tracereel.flush(20.0)

    (sent,) = otlp.spans
    assert "jane.doe" not in str(sent)
    assert sent.name == "for [redacted:email]"
    assert sent.status.message == "no [redacted:email] here"
    assert sent.links[0].span_id.hex() == f"{2:016x}"
    assert [each.string_value for each in sent.attributes[1].value.array_value.values] == [
        "[redacted:email]",
        "plain",
    ]
    assert (
        sent.dropped_attributes_count,
        sent.dropped_events_count,
        sent.dropped_links_count,
        sent.events[0].dropped_attributes_count,
    ) == (1, 1, 1, 1)


def test_content_does_not_leave_where_it_is_not_to_be_captured(
    otlp: OtlpSink, registry: CollectorRegistry
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracereel.configure(
        endpoint=otlp.url, tracer_provider=provider, registry=registry, capture_content=False
    )
    given = {
        "gen_ai.prompt.0.content": "my secret plan",
        "input.value": "my secret plan",
        "gen_ai.request.model": "m-1",
    }
    with provider.get_tracer("library").start_as_current_span("chat", attributes=given) as span:
        span.set_status(trace.StatusCode.ERROR, "PlanError: my secret plan")
    tracereel.flush(20.0)
    assert otlp.attributes("chat") == {"gen_ai.request.model": "m-1"}
    assert otlp.spans[0].status.message == "PlanError"
