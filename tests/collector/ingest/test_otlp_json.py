"""OTLP JSON mapping: differences from protobuf JSON, tolerated input, error messages."""

import json

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.otlp_json import request_from_json
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES

SPAN = {
    "traceId": "5B8EFFF798038103D269B633813FC60C",
    "spanId": "eee19b7ec3c1b174",
    "name": "a span",
    "kind": 2,
    "startTimeUnixNano": "1544712660000000000",
    "endTimeUnixNano": 1544712661000000000,
}


def request_with(**fields):
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, **fields}]}]}]}
    request, mended = request_from_json(TRACES, json.dumps(document).encode())
    return request.resource_spans[0].scope_spans[0].spans[0], mended


def test_ids_are_hex_in_either_case_and_integers_text_or_numbers():
    span, mended = request_with()

    assert span.trace_id.hex() == SPAN["traceId"].lower()
    assert span.span_id.hex() == SPAN["spanId"]
    assert span.start_time_unix_nano == 1544712660000000000
    assert span.end_time_unix_nano == 1544712661000000000
    assert (span.kind, +mended) == (2, {})


def test_every_kind_of_value_is_read():
    values = [
        {"stringValue": ""},
        {"boolValue": False},
        {"intValue": "-9223372036854775808"},
        {"intValue": 0},
        {"doubleValue": 1},
        {"doubleValue": "-Infinity"},
        {"bytesValue": "AP8="},
        {"arrayValue": {"values": [{"intValue": "1"}, {}]}},
        {"arrayValue": {}},
        {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}},
        {},
    ]
    span, _ = request_with(attributes=[{"key": "k", "value": value} for value in values])

    read = [MessageToDict(each.value) for each in span.attributes]

    values[3], values[4] = {"intValue": "0"}, {"doubleValue": 1.0}
    assert read == values


def test_names_of_enums_the_original_names_of_fields_and_nulls_are_tolerated():
    span, _ = request_with(
        kind="SPAN_KIND_CLIENT",
        status={"code": "STATUS_CODE_ERROR", "message": None},
        dropped_attributes_count=3,
        attributes=None,
    )

    assert (span.kind, span.status.code, span.dropped_attributes_count) == (3, 2, 3)


def test_unknown_fields_are_ignored_at_every_level():
    span, _ = request_with(newField={"a": [1]}, status={"later": True, "code": 1})

    assert span.status.code == 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"traceId": "xyz"}, "spans[0].traceId: expected hexadecimal digits; got 'xyz'"),
        ({"traceId": 5}, "spans[0].traceId: expected hexadecimal digits; got 5"),
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano: expected an integer from 0 to"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano: expected an integer from 0 to"),
        ({"startTimeUnixNano": 2**64}, "startTimeUnixNano: expected an integer from 0 to"),
        ({"name": 5}, "spans[0].name: expected a string; got 5"),
        ({"kind": "CLIENT"}, "spans[0].kind: expected an integer"),
        ({"attributes": {}}, "spans[0].attributes: expected an array; got {}"),
        (
            {"attributes": [{"key": "k", "value": {"boolValue": 1}}]},
            "attributes[0].value.boolValue: expected true or false; got 1",
        ),
        (
            {"attributes": [{"key": "k", "value": {"bytesValue": "?"}}]},
            "attributes[0].value.bytesValue: expected bytes in base64; got '?'",
        ),
        (
            {"attributes": [{"key": "k", "value": "v"}]},
            "attributes[0].value: expected an object; got 'v'",
        ),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_place(fields, problem):
    with pytest.raises(BadRequestError) as refused:
        request_with(**fields)

    assert problem in refused.value.message


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"not json", b'{"resourceSpans": [{]}'])
def test_non_object_json_is_refused(body):
    with pytest.raises(BadRequestError, match="not an OTLP ExportTraceServiceRequest in JSON"):
        request_from_json(TRACES, body)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"resourceSpans":['])
def test_nesting_without_end_is_refused(opening):
    with pytest.raises(BadRequestError, match="nested too deep"):
        request_from_json(TRACES, opening * 100_000)


def test_values_nested_without_end_are_refused():
    value = {"intValue": 1}
    for _ in range(150):
        value = {"arrayValue": {"values": [value]}}
    with pytest.raises(BadRequestError, match="nested too deep"):
        request_with(attributes=[{"key": "k", "value": value}])


@pytest.mark.parametrize("bad", [b"\xff", b"\\ud800", b"\xed\xa0\x80"])
def test_invalid_text_is_repaired_and_reported(bad):
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a?' + bad + b'b"}]}]}]}'

    request, mended = request_from_json(TRACES, body)

    name = request.resource_spans[0].scope_spans[0].spans[0].name
    assert name.startswith("a?\ufffd")
    assert name.endswith("b")
    assert mended.total() == 1


def test_numbers_of_metrics_and_flags_of_logs_are_read():
    metrics, _ = request_from_json(
        METRICS,
        b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","histogram":{"dataPoints":'
        b'[{"count":"3","bucketCounts":["1",2],"explicitBounds":[1.5],"sum":0}]}}]}]}]}',
    )
    (point,) = metrics.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points
    assert (point.count, list(point.bucket_counts), list(point.explicit_bounds)) == (
        3,
        [1, 2],
        [1.5],
    )
    assert point.HasField("sum")
    logs, _ = request_from_json(
        LOGS, b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"flags":1,"traceId":"0A"}]}]}]}'
    )
    (record,) = logs.resource_logs[0].scope_logs[0].log_records
    assert (record.flags, record.trace_id) == (1, b"\n")


NAMES = ["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "intValue"]
NAMES += ["arrayValue", "values", "kvlistValue", "traceId", "bytesValue", "kind", "x"]
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "attributes",
                    "key",
                    "value",
                    "intValue",
                    "arrayValue",
                    "values",
                    "kvlistValue",
                    "traceId",
                    "bytesValue",
                    "kind",
                    "x",
                ]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=15,
)


@given(JSON_VALUES)
@settings(max_examples=300, deadline=None)
def test_any_json_is_read_or_refused(document):
    try:
        request, _ = request_from_json(TRACES, json.dumps(document).encode())
    except BadRequestError:
        return
    assert isinstance(request, ExportTraceServiceRequest)
    request.SerializeToString()
