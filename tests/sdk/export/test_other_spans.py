"""Spans of other instrumentations reach the collector: bounded, counted, without blocking."""

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child
from tests.support.ingest_sink import IngestSink
from tests.support.otlp_sink import Answers, OtlpSink
from tests.support.waiting import wait_until
from tracereel import config, traced_agent
from tracereel._export import span_exporter
from tracereel._export.span_exporter import OtherSpans
from tracereel._redact.event_redaction import Privacy
from tracereel._telemetry.metrics import metrics_of


@pytest.fixture
def otlp() -> Iterator[OtlpSink]:
    with OtlpSink() as running:
        yield running


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False, resource=Resource({"service.name": "shop"}))


@pytest.fixture
def started(otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry) -> None:
    tracereel.configure(
        endpoint=otlp.url, api_key="sesame", tracer_provider=provider, registry=registry
    )


def end_spans(provider: TracerProvider, *names: str, **attributes: Any) -> None:
    for name in names:
        with provider.get_tracer("library").start_as_current_span(name, attributes=attributes):
            pass


def counted(registry: CollectorRegistry, **labels: str) -> float:
    name = (
        "tracereel_sdk_spans_total" if "outcome" in labels else "tracereel_sdk_spans_dropped_total"
    )
    return registry.get_sample_value(name, labels) or 0.0


def export(otlp: OtlpSink, registry: CollectorRegistry, **options: Any) -> OtherSpans:
    settings = config.load(endpoint=otlp.url)
    privacy = Privacy(settings.redaction, capture_content=True)
    return OtherSpans(settings, privacy, metrics_of(registry), **options)


@pytest.mark.usefixtures("started")
def test_spans_of_others_arrive_and_ours_do_not(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    """Our spans are derived from events; the others are still their children."""

    @traced_agent("a")
    def agent() -> str:
        end_spans(provider, "SELECT")
        return f"{tracereel.current_execution().span_id}"

    span_id = agent()
    tracereel.flush(20.0)

    (span,) = otlp.spans
    assert span.name == "SELECT"
    assert span.parent_span_id.hex() == span_id
    assert otlp.resources == [
        {**otlp.resources[0], "service.name": "shop"},
    ]
    assert (otlp.headers["content-type"], otlp.headers["x-api-key"]) == (
        "application/x-protobuf",
        "sesame",
    )
    assert counted(registry, outcome="delivered") == 1


def test_unsampled_spans_stay(otlp: OtlpSink, registry: CollectorRegistry) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    tracereel.configure(endpoint=otlp.url, tracer_provider=provider, registry=registry)
    end_spans(provider, "quiet")
    tracereel.flush(5.0)
    assert otlp.requests == 0


def test_export_of_other_spans_can_be_disabled(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    tracereel.configure(
        endpoint=otlp.url, tracer_provider=provider, registry=registry, other_spans=False
    )
    end_spans(provider, "theirs")
    assert provider.force_flush() is True
    assert otlp.requests == 0


@pytest.mark.usefixtures("started")
def test_a_new_configuration_takes_over_without_sending_twice(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    end_spans(provider, "first")
    with OtlpSink() as other:
        tracereel.configure(endpoint=other.url, tracer_provider=provider, registry=registry)
        end_spans(provider, "second")
        tracereel.flush(20.0)
        assert other.names == ["second"]
    assert otlp.names == ["first"]


def test_configured_service_name_is_used_for_other_spans(
    otlp: OtlpSink, registry: CollectorRegistry
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracereel.configure(
        endpoint=otlp.url, service="clinic", tracer_provider=provider, registry=registry
    )
    end_spans(provider, "GET")
    tracereel.flush(20.0)
    assert otlp.resources[0]["service.name"] == "clinic"


@pytest.mark.usefixtures("started")
def test_force_flush_returns_whether_all_spans_were_accepted(
    otlp: OtlpSink, provider: TracerProvider
) -> None:
    assert provider.force_flush(5_000) is True
    end_spans(provider, "taken")
    assert provider.force_flush(20_000) is True
    assert otlp.names == ["taken"]
    otlp.answers = Answers(status=400)
    end_spans(provider, "refused")
    assert provider.force_flush(20_000) is False
    otlp.answers = Answers(refused=1)
    end_spans(provider, "refused in part")
    assert provider.force_flush(20_000) is False
    otlp.answers = Answers(hang=True)
    end_spans(provider, "late")
    assert provider.force_flush(100) is False


@pytest.mark.usefixtures("started")
def test_refused_spans_are_counted(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    otlp.answers = Answers(status=400)
    end_spans(provider, "a", "b")
    tracereel.flush(20.0)
    otlp.answers = Answers(refused=1)
    end_spans(provider, "c", "d")
    tracereel.flush(20.0)
    assert counted(registry, reason="refused") == 3
    assert counted(registry, outcome="dropped") == 3
    assert counted(registry, outcome="delivered") == 1


@pytest.mark.parametrize(
    "trouble",
    [
        Answers(status=503),
        Answers(status=429, headers={"retry-after": "0"}),
        Answers(content_type="text/html"),
    ],
    ids=lambda value: f"{value.status} {value.content_type}",
)
@pytest.mark.usefixtures("started")
def test_transient_errors_lose_no_spans(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry, trouble: Answers
) -> None:
    otlp.answers = trouble
    end_spans(provider, "patient")
    assert provider.force_flush(200) is False
    otlp.spans.clear()
    otlp.answers = Answers()
    assert provider.force_flush(20_000) is True
    assert otlp.names == ["patient"]
    assert counted(registry, outcome="dropped") == 0


def test_spans_are_dropped_and_counted_after_the_retry_time(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    otlp.answers = Answers(status=503)
    out = export(otlp, registry, retry_seconds=0.3)
    span_exporter.attach(provider, out)
    end_spans(provider, "a", "b")
    assert out.flush(20.0) is False
    assert counted(registry, reason="unavailable") == 2
    assert otlp.requests >= 2
    out.close(1.0)


def test_retry_after_of_the_collector_is_respected(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    """Longer than the retry time for other errors, without a request meanwhile."""
    otlp.answers = Answers(status=503, headers={"retry-after": "1"})
    out = export(otlp, registry, retry_seconds=0.1, linger=0.0)
    span_exporter.attach(provider, out)
    end_spans(provider, "patient")
    wait_until(lambda: otlp.requests == 1)
    otlp.answers = Answers()
    wait_until(lambda: otlp.names == ["patient"])
    assert otlp.requests == 2
    out.close(1.0)


def test_too_large_a_request_is_halved(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    otlp.answers = Answers(max_spans=2)
    out = export(otlp, registry)
    span_exporter.attach(provider, out)
    end_spans(provider, *(str(number) for number in range(7)))
    assert out.flush(20.0) is True
    assert otlp.names == [str(number) for number in range(7)]
    out.close(1.0)


def test_a_span_that_cannot_be_encoded_costs_no_other(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    out = export(otlp, registry)
    span_exporter.attach(provider, out)
    end_spans(provider, "one", "two")
    with provider.get_tracer("library").start_as_current_span("bad"):
        pass
    bad = out._waiting[-1][0]
    bad._name = object()  # type: ignore[assignment]
    end_spans(provider, "three")
    assert out.flush(20.0) is False
    assert otlp.names == ["one", "two", "three"]
    assert counted(registry, reason="not_encoded") == 1
    out.close(1.0)


def test_span_queue_is_bounded_and_never_blocks_the_caller(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    otlp.answers = Answers(hang=True)
    out = export(otlp, registry, max_spans=100, linger=0.0)
    span_exporter.attach(provider, out)
    end_spans(provider, "first")
    wait_until(lambda: otlp.requests == 1)
    end_spans(provider, *["more"] * 1000)
    out.close(0.0)
    # The thread hangs with the first; waiting spans are dropped at the end, the rest at once.
    assert counted(registry, reason="shutdown") == 100
    assert counted(registry, reason="queue_full") == 900


def test_span_queue_is_bounded_in_bytes(
    otlp: OtlpSink, provider: TracerProvider, registry: CollectorRegistry
) -> None:
    otlp.answers = Answers(status=503)
    out = export(otlp, registry, max_bytes=100_000, retry_seconds=600.0, linger=0.0)
    span_exporter.attach(provider, out)
    end_spans(provider, "first")
    wait_until(lambda: otlp.requests >= 1)
    end_spans(provider, *["large"] * 20, text="x" * 10_000)
    otlp.answers = Answers()
    assert out.flush(20.0) is True
    assert otlp.names == ["first"] + ["large"] * 9
    end_spans(provider, "after")
    out.flush(20.0)
    assert counted(registry, reason="queue_full") == 11
    out.close(1.0)


@pytest.mark.usefixtures("started")
def test_spans_are_delivered_at_provider_shutdown(otlp: OtlpSink, provider: TracerProvider) -> None:
    end_spans(provider, "last")
    provider.shutdown()
    assert otlp.names == ["last"]


@pytest.mark.usefixtures("started")
def test_requests_made_by_the_program_are_seen_and_ours_are_not(
    otlp: OtlpSink, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instruments `requests` and also http.client, which we use ourselves."""
    plain = http.client.HTTPConnection.request

    def traced(self: Any, method: str, url: str, *args: Any, **more: Any) -> None:
        if is_http_instrumentation_enabled():
            end_spans(provider, f"wire {url}")
        plain(self, method, url, *args, **more)

    monkeypatch.setattr(http.client.HTTPConnection, "request", traced)
    RequestsInstrumentor().instrument(tracer_provider=provider)
    try:
        assert requests.get(f"{otlp.url}/weather", timeout=10).text == "hello"
        connection = http.client.HTTPConnection("127.0.0.1", otlp.port)
        connection.request("GET", "/direct")
        connection.close()

        @traced_agent("a")
        def agent() -> None:
            """Makes events, so that the shipper has something to send."""

        agent()
        for _ in range(3):
            assert tracereel.flush(20.0).spooled == 0
    finally:
        RequestsInstrumentor().uninstrument()
    assert provider.force_flush(20_000) is True
    assert sorted(otlp.names) == ["GET", "wire /direct"]


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"]
)
def test_the_timeout_of_opentelemetry_is_respected(
    otlp: OtlpSink,
    registry: CollectorRegistry,
    provider: TracerProvider,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, "0.05")
    otlp.answers = Answers(hang=True)
    out = export(otlp, registry, retry_seconds=0.2)
    span_exporter.attach(provider, out)
    end_spans(provider, "late")
    assert out.flush(8.0) is False
    assert counted(registry, reason="unavailable") == 1
    out.close(1.0)


CHILD = """
import os, sys
import tracereel
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

@tracereel.traced_agent("a")
def agent():
    with trace.get_tracer("library").start_as_current_span("inside"):
        pass
"""


def test_late_tracer_provider_is_detected(otlp: OtlpSink, child: Child) -> None:
    process = child(
        CHILD
        + """
tracereel.configure(service="late")
agent()
trace.set_tracer_provider(TracerProvider())
agent()
with trace.get_tracer("library").start_as_current_span("outside"):
    pass
""",
        TRACEREEL_ENDPOINT=otlp.url,
    )
    assert process.wait(60) == 0
    # The first call came before the provider, so its span was not recorded.
    assert sorted(otlp.names) == ["inside", "outside"]


def test_tracer_provider_is_set_only_on_request(otlp: OtlpSink, child: Child) -> None:
    script = CHILD + "agent(); print(type(trace.get_tracer_provider()).__name__)"
    unasked = child(script, TRACEREEL_ENDPOINT=otlp.url, TRACEREEL_SET_TRACER_PROVIDER="")
    assert unasked.communicate(timeout=60)[0] == "ProxyTracerProvider\n"
    assert otlp.names == []
    asked = child(
        script,
        TRACEREEL_ENDPOINT=otlp.url,
        TRACEREEL_SET_TRACER_PROVIDER="1",
        TRACEREEL_SERVICE="clinic",
    )
    assert asked.communicate(timeout=60)[0] == "DefaultProvider\n"
    assert otlp.names == ["inside"]
    assert otlp.resources[0]["service.name"] == "clinic"


def test_a_forked_child_sends_its_own_spans_and_none_of_its_parents(
    otlp: OtlpSink, child: Child
) -> None:
    process = child(
        CHILD
        + """
trace.set_tracer_provider(TracerProvider())
tracereel.configure()
tracer = trace.get_tracer("library")
for _ in range(20):
    with tracer.start_as_current_span("parent"):
        pass
if (pid := os.fork()) == 0:
    with tracer.start_as_current_span("child"):
        pass
    sys.exit()
os.waitpid(pid, 0)
with tracer.start_as_current_span("after"):
    pass
""",
        TRACEREEL_ENDPOINT=otlp.url,
    )
    assert process.wait(60) == 0
    assert sorted(otlp.names) == ["after", "child"] + ["parent"] * 20


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "is away"])
def test_a_program_ends_in_time_whatever_the_collector_does(
    otlp: OtlpSink, child: Child, hangs: bool
) -> None:
    otlp.answers = Answers(hang=True)
    with IngestSink() as gone:
        away = gone.url
    process = child(
        CHILD
        + """
trace.set_tracer_provider(TracerProvider())
tracereel.configure(exit_timeout=0.5)
for _ in range(100):
    agent()
""",
        TRACEREEL_ENDPOINT=otlp.url if hangs else away,
    )
    # The sink responds only after the test, so a program that waits for it would not end.
    assert process.wait(60) == 0
