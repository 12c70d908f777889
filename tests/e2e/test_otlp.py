"""Spans of the stock OTLP exporter are stored once, in the exporter tables' columns."""

import gzip
import json
import zlib

import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace import Status as SpanStatus

from tests.support.collector import http
from tests.support.waiting import wait_until

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def spans(sql, name):
    query = "SELECT * FROM otel_traces WHERE SpanName = {name:String}"
    return list(sql.query(query, parameters={"name": name}).named_results())


def test_span_of_the_stock_exporter_is_stored_completely(collector, sql, trace_id):
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


def test_unsupported_content_type_is_415_with_the_accepted_types(collector):
    answer = http("POST", f"{collector.url}/v1/traces", b"{}", {"Content-Type": "text/plain"})

    assert answer.status == 415
    assert "application/x-protobuf" in Status.FromString(answer.body).message


def test_an_empty_request_is_a_success(collector):
    assert http("POST", f"{collector.url}/v1/traces", b"", PROTOBUF).status == 200


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_an_empty_request_is_a_success_for_every_signal_and_encoding(collector, path):
    for headers, expected in ((PROTOBUF, b""), (JSON, b"{}")):
        answer = http("POST", collector.url + path, b"", headers)

        assert (answer.status, answer.body) == (200, expected)
        assert answer.headers["content-type"] == headers["Content-Type"]


def test_json_and_protobuf_store_the_same(collector, sql, trace_id):
    value = {"kvlistValue": {"values": [{"key": "k", "value": {"arrayValue": {"values": [
        {"kvlistValue": {"values": [{"key": "zero", "value": {"intValue": "0"}}]}}
    ]}}}]}}  # fmt: skip
    span = {
        "traceId": "0A" * 16,
        "spanId": "0b" * 8,
        "name": trace_id,
        "kind": 3,
        "startTimeUnixNano": "1794794400000000001",
        "endTimeUnixNano": 1794794400000000003,
        "attributes": [{"key": "nested", "value": value}],
        "aFieldOfTomorrow": {},
    }
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}

    answer = http("POST", f"{collector.url}/v1/traces", json.dumps(document).encode(), JSON)

    assert (answer.status, answer.json()) == (200, {})
    (row,) = wait_until(lambda: spans(sql, trace_id))
    assert (row["TraceId"], row["SpanId"], row["SpanKind"]) == ("0a" * 16, "0b" * 8, "Client")
    assert row["Duration"] == 2
    assert row["SpanAttributes"] == {"nested": '{"k":[{"zero":0}]}'}


def test_a_span_without_ids_is_counted_in_the_answer_and_the_others_are_stored(
    collector, sql, trace_id
):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(name=trace_id, trace_id=b"\3" * 16, span_id=b"\4" * 8)
    scope.spans.add(name=trace_id)
    before = collector.metric("tracereel_records_rejected_total", kind="spans")

    answer = http("POST", f"{collector.url}/v1/traces", request.SerializeToString(), PROTOBUF)

    said = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, said.rejected_spans) == (200, 1)
    assert "trace_id: expected 16 bytes" in said.error_message
    (row,) = wait_until(lambda: spans(sql, trace_id))
    assert row["SpanId"] == "04" * 8
    after = collector.metric("tracereel_records_rejected_total", kind="spans")
    assert after - before == 1


def test_invalid_string_does_not_affect_the_batch(collector, sql, trace_id):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(name=trace_id, trace_id=b"\5" * 16, span_id=b"\6" * 8)
    scope.spans.add(name=trace_id, trace_id=b"\5" * 16, span_id=b"\7" * 8, trace_state="BAD")
    body = request.SerializeToString().replace(b"BAD", b"B\xffD")

    answer = http("POST", f"{collector.url}/v1/traces", body, PROTOBUF)

    said = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, said.rejected_spans) == (200, 0)
    assert "not UTF-8" in said.error_message
    rows = wait_until(lambda: spans(sql, trace_id))
    assert sorted(row["TraceState"] for row in rows) == ["", "B\ufffdD"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.compress)],
)
def test_bodies_may_be_compressed(collector, sql, trace_id, encoding, pack):
    body = pack(request_with_one_span(trace_id))

    answer = http(
        "POST", f"{collector.url}/v1/traces", body, {**PROTOBUF, "Content-Encoding": encoding}
    )

    assert answer.status == 200
    assert wait_until(lambda: spans(sql, trace_id))


def test_oversized_decompressed_body_is_413_with_a_status(collector):
    body = zstandard.compress(b"\0" * (64 * 1024 * 1024 + 1))

    answer = http(
        "POST", f"{collector.url}/v1/logs", body, {**PROTOBUF, "Content-Encoding": "zstd"}
    )

    assert answer.status == 413
    assert Status.FromString(answer.body).code == 8


def test_errors_of_json_requests_are_json(collector):
    body = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "no"}]}]}]}'

    answer = http("POST", f"{collector.url}/v1/logs", body, JSON)

    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["code"] == 3
    assert "logRecords[0].traceId: expected hexadecimal digits" in answer.json()["message"]
