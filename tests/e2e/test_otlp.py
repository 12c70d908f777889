"""The stock OTLP exporter's spans arrive in the exporter tables' columns, each once."""

import clickhouse_connect
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace import Status as SpanStatus

from tests.support.collector import http
from tests.support.waiting import wait_until

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="session")
def sql(collector):
    """A ClickHouse client on the embedded engine, as any user may have one."""
    store = http("GET", f"{collector.url}/readyz").json()["store"]
    host, port = store["address"].split(":")
    client = clickhouse_connect.get_client(
        host=host,
        port=int(port),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    yield client
    client.close()


def spans(sql, name):
    query = "SELECT * FROM otel_traces WHERE SpanName = {name:String}"
    return list(sql.query(query, parameters={"name": name}).named_results())


def test_a_span_of_the_stock_exporter_is_stored_with_everything_it_said(collector, sql, trace_id):
    exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("scope", "1.2")
    with tracer.start_as_current_span(trace_id, kind=SpanKind.CLIENT) as span:
        span.set_attributes(
            {"s": "text", "zero": 0, "no": False, "half": 0.5, "list": ["a", "b"], "empty": ""}
        )
        span.add_event("happened", {"flag": True})
        span.set_status(SpanStatus(StatusCode.ERROR, "broken"))
    provider.shutdown()

    (row,) = wait_until(lambda: spans(sql, trace_id))

    context = span.get_span_context()
    assert row["TraceId"] == f"{context.trace_id:032x}"
    assert row["SpanId"] == f"{context.span_id:016x}"
    assert (row["ParentSpanId"], row["SpanKind"]) == ("", "Client")
    assert row["ServiceName"] == "shop"
    assert (row["ScopeName"], row["ScopeVersion"]) == ("scope", "1.2")
    assert (row["StatusCode"], row["StatusMessage"]) == ("Error", "broken")
    assert row["Duration"] == span.end_time - span.start_time
    assert row["SpanAttributes"] == {
        "s": "text",
        "zero": "0",
        "no": "false",
        "half": "0.5",
        "list": '["a","b"]',
        "empty": "",
    }
    assert row["Events.Name"] == ["happened"]
    assert row["Events.Attributes"] == [{"flag": "true"}]
    assert row["TenantId"] == "default"


def request_with_one_span(name):
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name=name, trace_id=b"\1" * 16, span_id=name.encode()[-8:])
    )
    span.start_time_unix_nano, span.end_time_unix_nano = 2**64 - 1, 5
    value = span.attributes.add(key="nested").value
    inner = value.kvlist_value.values.add(key="k").value.array_value.values
    inner.add().int_value = 0
    inner.add().bytes_value = b"\xff"
    return request.SerializeToString()


def test_an_odd_span_is_stored_and_a_resend_is_not_stored_again(collector, sql, trace_id):
    body = request_with_one_span(trace_id)

    answers = [http("POST", f"{collector.url}/v1/traces", body, PROTOBUF) for _ in range(3)]

    assert [answer.status for answer in answers] == [200] * 3
    (row,) = wait_until(lambda: spans(sql, trace_id))
    assert row["Duration"] == 0
    assert row["SpanAttributes"] == {
        "nested": '{"k":[0,"/w=="]}',
        "tracereel.original_start_time_unix_nano": str(2**64 - 1),
    }
    rows = sql.query(
        "SELECT count() FROM otel_spans WHERE SpanName = {n:String}", parameters={"n": trace_id}
    )
    assert rows.result_rows == [(1,)]


def test_a_body_that_is_not_otlp_is_answered_with_a_status_message(collector):
    answer = http("POST", f"{collector.url}/v1/traces", b"\xff\xff not protobuf", PROTOBUF)

    assert answer.status == 400
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert "ExportTraceServiceRequest" in Status.FromString(answer.body).message


def test_another_content_type_is_told_what_is_accepted(collector):
    answer = http("POST", f"{collector.url}/v1/traces", b"{}", {"Content-Type": "text/plain"})

    assert answer.status == 415
    assert "application/x-protobuf" in Status.FromString(answer.body).message


def test_an_empty_request_is_a_success(collector):
    assert http("POST", f"{collector.url}/v1/traces", b"", PROTOBUF).status == 200
