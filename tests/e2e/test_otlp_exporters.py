"""Stock exporters work unchanged: all signals, HTTP and gRPC, Python and JavaScript."""

import importlib
import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
import requests
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.support.collector import http
from tests.support.contract import example
from tests.support.waiting import wait_until

JAVASCRIPT = Path(__file__).parent.parent / "support" / "javascript"


@pytest.fixture(params=["http", "grpc"])
def exporter(request, collector):
    """Return the stock exporter of a signal for one of the two protocols."""

    def make(signal, name):
        module = f"opentelemetry.exporter.otlp.proto.{request.param}.{signal}"
        cls = getattr(importlib.import_module(module), name)
        if request.param == "grpc":
            return cls(endpoint=f"http://127.0.0.1:{collector.grpc_port}", insecure=True)
        path = {"_log_exporter": "logs", "metric_exporter": "metrics", "trace_exporter": "traces"}
        return cls(endpoint=f"{collector.url}/v1/{path[signal]}")

    return make


@pytest.fixture
def service():
    return f"service-{uuid.uuid4().hex}"


def rows_of(sql, table, service):
    found = sql.query(
        f"SELECT * FROM {table} WHERE ServiceName = {{s:String}}", parameters={"s": service}
    )
    return list(found.named_results())


def test_spans(exporter, sql, service):
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(exporter("trace_exporter", "OTLPSpanExporter")))
    with provider.get_tracer("t").start_as_current_span("work") as span:
        span.set_attributes({"list": [1, 2], "no": False, "zero": 0})
    provider.shutdown()

    (row,) = wait_until(lambda: rows_of(sql, "otel_traces", service))

    assert row["SpanAttributes"] == {"list": "[1,2]", "no": "false", "zero": "0"}


def test_log_records(exporter, sql, service):
    provider = LoggerProvider(resource=Resource.create({"service.name": service}))
    provider.add_log_record_processor(
        BatchLogRecordProcessor(exporter("_log_exporter", "OTLPLogExporter"))
    )
    provider.get_logger("scope", "1").emit(
        LogRecord(
            timestamp=1_794_794_400_000_000_123,
            severity_number=SeverityNumber.WARN,
            severity_text="WARN",
            body={"question": "¿?", "parts": [{"n": [0, {"deep": False}]}]},
            attributes={"user": "u1"},
            event_name="something.happened",
        )
    )
    provider.shutdown()

    (row,) = wait_until(lambda: rows_of(sql, "otel_logs", service))

    assert json.loads(row["Body"]) == {"question": "¿?", "parts": [{"n": [0, {"deep": False}]}]}
    assert (row["SeverityNumber"], row["SeverityText"]) == (13, "WARN")
    assert (row["EventName"], row["ScopeName"]) == ("something.happened", "scope")
    assert row["LogAttributes"] == {"user": "u1"}
    assert row["TenantId"] == "default"


def test_metrics(exporter, sql, service):
    reader = PeriodicExportingMetricReader(exporter("metric_exporter", "OTLPMetricExporter"))
    provider = MeterProvider([reader], Resource.create({"service.name": service}))
    meter = provider.get_meter("m", "2")
    meter.create_counter("calls", "1", "how many").add(2**60 + 1, {"agent": "a"})
    meter.create_gauge("level").set(0.5)
    meter.create_histogram("seconds").record(3.0)
    provider.shutdown()

    (calls,) = wait_until(lambda: rows_of(sql, "otel_metrics_sum", service))
    (level,) = wait_until(lambda: rows_of(sql, "otel_metrics_gauge", service))
    (seconds,) = wait_until(lambda: rows_of(sql, "otel_metrics_histogram", service))

    assert (calls["MetricName"], calls["IntValue"]) == ("calls", 2**60 + 1)
    assert (calls["MetricDescription"], calls["Attributes"]) == ("how many", {"agent": "a"})
    assert (calls["IsMonotonic"], calls["AggregationTemporality"]) == (True, 2)
    assert (level["Value"], level["IntValue"]) == (0.5, None)
    assert (seconds["Count"], seconds["Sum"], seconds["Min"]) == (1, 3.0, 3.0)
    assert sum(seconds["BucketCounts"]) == 1


BODIES = {
    "spans": ("traces", {"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "01" * 16, "spanId": "02" * 8}, {"traceId": b"no id at all".hex()},
    ]}]}]}),
    "logs": ("logs", {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityNumber": 9}]}]}]}),
    "metrics": ("metrics", {"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "m", "gauge": {"dataPoints": [{"asInt": "0"}]}},
    ]}]}]}),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["spans", "logs", "metrics"])
def test_every_record_is_accounted_for(collector, kind):
    """received = rejected + appended, and appended records are stored once."""

    def counted(name):
        return collector.metric(f"tracereel_records_{name}_total", kind=kind)

    signal, document = BODIES[kind]
    body = json.dumps(document).encode()
    before = counted("received")
    for _ in range(2):
        answer = http(
            "POST", f"{collector.url}/v1/{signal}", body, {"Content-Type": "application/json"}
        )
        assert answer.status == 200

    wait_until(lambda: collector.metric("tracereel_records_pending", kind=kind) == 0)

    assert counted("received") - before == (4 if kind == "spans" else 2)
    assert counted("received") == counted("rejected") + counted("appended")
    assert counted("appended") == counted("duplicate") + counted("stored") + counted("quarantined")
    assert counted("quarantined") == 0


def test_our_events_sent_as_log_records_are_events(exporter, collector, trace_id):
    """Programs with an OpenTelemetry Collector in between lose nothing."""
    provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(
        BatchLogRecordProcessor(exporter("_log_exporter", "OTLPLogExporter"))
    )
    sent = []
    for event_type in ("agent.execution.started", "agent.execution.completed"):
        event = {**example(event_type), "trace_id": trace_id, "event_id": uuid.uuid4().hex}
        sent.append(event)
        fields = {
            key: value for key, value in event.items() if key != "event_type" and value is not None
        }
        provider.get_logger("sdk").emit(LogRecord(event_name=event_type, body=fields))
    provider.shutdown()

    def stored_timeline():
        answer = collector.replay(trace_id)
        return answer.status == 200 and answer.json()["timeline"]

    timeline = wait_until(stored_timeline)

    details = [each["details"] for each in timeline]
    assert [each["event_id"] for each in details] == [each["event_id"] for each in sent]
    for stored, event in zip(details, sent, strict=True):
        given = {key: value for key, value in event.items() if value is not None}
        assert {key: stored[key] for key in given} == given
        assert stored["service"] == "shop"


def test_the_spans_of_an_instrumentation_from_pypi(exporter, collector, sql, service):
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(exporter("trace_exporter", "OTLPSpanExporter")))
    instrumentor = RequestsInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with requests.Session() as session:
            session.get(f"{collector.url}/healthz", timeout=10)
    finally:
        instrumentor.uninstrument()
    provider.shutdown()

    (row,) = wait_until(
        lambda: [each for each in rows_of(sql, "otel_traces", service) if each["SpanName"] == "GET"]
    )

    assert row["SpanKind"] == "Client"
    assert f"{collector.url}/healthz" in row["SpanAttributes"].values()


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    """Return a directory with the npm exporters installed."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "export.js"):
        shutil.copy(JAVASCRIPT / name, folder)
    installed = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--no-package-lock"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    if installed.returncode:
        pytest.skip(f"npm cannot install the exporters: {installed.stderr[-200:]}")
    return folder


@pytest.mark.parametrize("protocol", ["http", "proto", "grpc"])
def test_the_exporters_of_javascript(javascript, collector, sql, service, protocol):
    url = f"http://127.0.0.1:{collector.grpc_port}" if protocol == "grpc" else collector.url
    endpoint = url if protocol == "grpc" else f"{url}/v1/traces"
    subprocess.run(
        ["node", "export.js", protocol, endpoint, service],
        cwd=javascript,
        env={**os.environ, "OTEL_LOG_LEVEL": "error"},
        check=True,
        timeout=60,
    )

    (row,) = wait_until(lambda: rows_of(sql, "otel_traces", service))

    assert (row["SpanName"], row["SpanKind"]) == ("from javascript", "Client")
    assert row["SpanAttributes"] == {
        "text": "ñ",
        "zero": "0",
        "no": "false",
        "half": "0.5",
        "list": '["a","b"]',
    }
    assert row["Events.Name"] == ["happened"]
    assert row["Duration"] > 0
