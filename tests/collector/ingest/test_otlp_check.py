"""OTLP validation: bytes pass unchanged unless they must be repaired, without data loss."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.contract import EXAMPLES
from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.otlp import REFUSED_EVENT, OtlpCheck
from tracereel_collector.ingest.otlp_mend import BAD_TEXT, BAD_TIME, DEEP_VALUE, NO_EVENT
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, SIGNALS, TRACES

events = EventCheck(max_event_bytes=1 << 20)


def why_no_event(line, tenant):
    rejected = events.check([line], tenant=tenant).rejected
    return rejected[0].reason if rejected else None


door = OtlpCheck(why_no_event=why_no_event)


def request_of(*spans):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, fields in enumerate(spans, 1):
        scope.spans.add(
            **{"trace_id": bytes([number]) * 16, "span_id": bytes([number]) * 8, **fields}
        )
    return request


def spans_of(data):
    (resource,) = ExportTraceServiceRequest.FromString(data).resource_spans
    return list(resource.scope_spans[0].spans)


def field(number, data):
    size, length = len(data), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + data


def nested(value, levels):
    for _ in range(levels):
        value = value.array_value.values.add()
    value.int_value = 7


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_an_empty_request_is_one_without_records(signal):
    for checked in (
        door.protobuf(signal, b"", tenant="default"),
        door.json(signal, b"", tenant="default"),
        door.json(signal, b"{}", tenant="default"),
    ):
        assert (checked.records, checked.message()) == (0, "")


def test_an_ordinary_request_stays_the_bytes_that_came():
    request = request_of({"name": "a"}, {"name": "b"})
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="list").value.array_value.values.add().string_value = "x"
    span.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.int_value = 0
    # A field of a later OTLP version, at a position that is unused now.
    data = request.SerializeToString() + b"\xfa\x01\x03new"

    checked = door.protobuf(TRACES, data, tenant="default")

    assert checked.data is data
    assert (checked.records, checked.message(), checked.mended) == (2, "", {})


def test_invalid_protobuf_is_refused_by_name():
    with pytest.raises(BadRequestError, match="not an OTLP ExportLogsServiceRequest in protobuf"):
        door.protobuf(LOGS, b"\xff\xff\xff", tenant="default")


def test_a_value_deeper_than_the_store_reads_becomes_its_json():
    request = request_of({"name": "deep"}, {"name": "shallow"})
    first, second = request.resource_spans[0].scope_spans[0].spans
    nested(first.attributes.add(key="deep").value, 5)
    nested(second.attributes.add(key="shallow").value, 1)

    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="default")

    deep, shallow = spans_of(checked.data)
    assert deep.attributes[0].value.string_value == "[[[[[7]]]]]"
    assert shallow == second
    assert checked.mended == {DEEP_VALUE: 1}
    assert checked.message() == ""


@pytest.mark.parametrize("levels", [2, 10, 30])
def test_messages_of_a_model_call_keep_every_level(levels):
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    nested(record.body, levels)

    checked = door.protobuf(LOGS, request.SerializeToString(), tenant="default")

    (stored,) = ExportLogsServiceRequest.FromString(checked.data).resource_logs
    text = stored.scope_logs[0].log_records[0].body.string_value
    assert text == "[" * levels + "7" + "]" * levels


def test_nesting_without_end_is_refused_not_followed():
    value = b""
    for _ in range(5_000):  # a list of one value that is a list of one value …
        value = field(1, field(5, value))
    attribute = field(2, field(5, value))
    request = field(1, field(1, field(1, attribute)))
    with pytest.raises(BadRequestError, match="in protobuf"):
        door.protobuf(TRACES, request, tenant="default")


def test_invalid_utf8_is_repaired_and_the_rest_unchanged():
    request = request_of({"name": "good"}, {"name": "bad NAME"})
    request.resource_spans[0].scope_spans[0].spans[1].attributes.add(key="k").value.int_value = 9
    data = request.SerializeToString().replace(b"bad NAME", b"bad \xff\xfeME")

    checked = door.protobuf(TRACES, data, tenant="default")

    good, bad = spans_of(checked.data)
    assert (good.name, bad.name) == ("good", "bad \ufffd\ufffdME")
    assert bad.attributes[0].value.int_value == 9
    assert checked.mended == {BAD_TEXT: 1}
    assert "1 strings were not UTF-8" in checked.message()
    assert not checked.refused


def test_invalid_text_is_repaired_in_every_field():
    request = request_of({"name": "BAD", "trace_state": "BAD"})
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.events.add(name="BAD").attributes.add(key="BAD").value.string_value = "BAD"
    span.links.add(trace_state="BAD")
    span.status.message = "BAD"
    inner = span.attributes.add(key="k").value.kvlist_value.values.add(key="BAD").value
    inner.array_value.values.add().array_value.values.add().string_value = "BAD"
    data = request.SerializeToString().replace(b"BAD", b"B\xffD")

    checked = door.protobuf(TRACES, data, tenant="default")

    (mended,) = spans_of(checked.data)
    assert str(mended).count("B\ufffdD") == 9
    assert mended.attributes[0].value.string_value == '{"B\ufffdD":[["B\ufffdD"]]}'
    assert checked.mended == {BAD_TEXT: 9, DEEP_VALUE: 1}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b""}, "trace_id: expected 16 bytes"),
        ({"trace_id": b"\0" * 16}, "trace_id: expected 16 bytes"),
        ({"span_id": b"\1" * 9}, "span_id: expected 8 bytes"),
    ],
)
def test_a_span_without_valid_ids_is_refused_and_the_others_enter(fields, reason):
    request = request_of({"name": "a"}, {"name": "invalid", **fields}, {"name": "c"})

    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="default")

    assert [span.name for span in spans_of(checked.data)] == ["a", "c"]
    assert (checked.records, checked.refused.total()) == (2, 1)
    assert f"1 refused: {reason}" in checked.message()


def test_times_the_store_cannot_hold_are_kept_as_attributes():
    request = request_of({"start_time_unix_nano": 2**63, "end_time_unix_nano": 2**64 - 1})
    request.resource_spans[0].scope_spans[0].spans[0].events.add(time_unix_nano=2**63)

    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="default")

    (span,) = spans_of(checked.data)
    assert {each.key: each.value.string_value for each in span.attributes} == {
        "tracereel.original_start_time_unix_nano": str(2**63),
        "tracereel.original_end_time_unix_nano": str(2**64 - 1),
    }
    assert span.events[0].attributes[0].key == "tracereel.original_time_unix_nano"
    assert checked.mended == {BAD_TIME: 3}


def test_a_parent_of_zeros_is_no_parent():
    request = request_of({"parent_span_id": b"\0" * 8}, {"parent_span_id": b"\1" * 8})

    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="default")

    assert [span.parent_span_id for span in spans_of(checked.data)] == [b"", b"\1" * 8]
    assert checked.message() == ""


def test_points_of_every_type_are_counted():
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="empty")
    metrics.add(name="g").gauge.data_points.add()
    metrics.add(name="s").sum.data_points.add()
    metrics.add(name="h").histogram.data_points.add()
    metrics.add(name="e").exponential_histogram.data_points.add()
    for _ in range(2):
        metrics.add(name="q").summary.data_points.add()

    assert door.protobuf(METRICS, request.SerializeToString(), tenant="default").records == 6


# Tracereel events among log records


def logs_of(*records):
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_logs.add()
    for name, fields in records:
        record = scope.log_records.add(
            event_name=name,
            time_unix_nano=1_769_162_400_000_000_001,
            trace_id=b"\x0a" * 16,
            span_id=b"\x0b" * 8,
        )
        for key, value in fields.items():
            kind = {int: "int_value", bool: "bool_value", float: "double_value"}.get(type(value))
            target = record.body.kvlist_value.values.add(key=key).value
            setattr(target, kind or "string_value", value)
    return request


def without_ids(event):
    return {
        key: value
        for key, value in event.items()
        if key not in {"event_id", "event_type", "timestamp", "trace_id"} and value is not None
    }


def test_a_record_with_our_event_name_becomes_the_event_and_others_stay_logs():
    started = without_ids(EXAMPLES[0])
    request = logs_of((EXAMPLES[0]["event_type"], started), ("some.other.event", {"n": 1}))

    checked = door.protobuf(LOGS, request.SerializeToString(), tenant="default")

    (line,) = checked.events
    event = json.loads(line)
    assert {key: event[key] for key in started} == started
    assert event["timestamp"] == "2026-01-23T10:00:00.000000001Z"
    assert event["trace_id"] == event["otel_trace_id"] == "0a" * 16
    assert (event["span_id"], event["service"]) == ("0b" * 8, "shop")
    assert checked.records == 1
    (kept,) = ExportLogsServiceRequest.FromString(checked.data).resource_logs
    assert [each.event_name for each in kept.scope_logs[0].log_records] == ["some.other.event"]


def test_event_fields_override_log_record_fields():
    fields = {"trace_id": "trc_own", "event_id": "evt_own", "timestamp": "2026-01-01T00:00:00Z"}
    checked = door.protobuf(
        LOGS, logs_of(("custom.mine", fields)).SerializeToString(), tenant="default"
    )

    event = json.loads(checked.events[0])

    assert {key: event[key] for key in fields} == fields


def test_the_older_attribute_names_the_event_and_attributes_are_its_fields():
    request = logs_of(("", {}))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.body.string_value = '{"in_body": 1}'
    record.attributes.add(key="event.name").value.string_value = "custom.old"
    record.attributes.add(key="in_attributes").value.bool_value = True

    event = json.loads(door.protobuf(LOGS, request.SerializeToString(), tenant="default").events[0])

    assert (event["event_type"], event["in_body"], event["in_attributes"]) == (
        "custom.old",
        1,
        True,
    )


def test_the_same_record_makes_the_same_line_so_that_a_resend_is_known():
    data = logs_of(("custom.mine", {"n": 1})).SerializeToString()

    assert (
        door.protobuf(LOGS, data, tenant="default").events
        == door.protobuf(LOGS, data, tenant="default").events
    )


def test_a_record_that_names_an_event_and_is_none_stays_a_log_with_the_reason():
    checked = door.protobuf(
        LOGS,
        logs_of(("agent.execution.started", {"agent_name": "a"})).SerializeToString(),
        tenant="default",
    )

    (kept,) = ExportLogsServiceRequest.FromString(checked.data).resource_logs
    record = kept.scope_logs[0].log_records[0]
    assert (checked.events, checked.records) == ([], 1)
    assert record.attributes[0].key == REFUSED_EVENT
    assert "missing; the field is required" in record.attributes[0].value.string_value
    assert checked.mended == {NO_EVENT: 1}
    assert "kept as log records" in checked.message()


@given(st.sampled_from(SIGNALS), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_checked_or_refused(signal, data):
    for check in (door.protobuf, door.json):
        try:
            checked = check(signal, data, tenant="default")
        except BadRequestError:
            continue
        signal.request.FromString(checked.data)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_requests_are_checked_or_refused(data):
    """Real requests with a few bytes changed, which is closer to reality than random bytes."""
    request = request_of({"name": "some name"}, {"name": "another"})
    nested(request.resource_spans[0].resource.attributes.add(key="deep").value, 4)
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        checked = door.protobuf(TRACES, bytes(body), tenant="default")
    except BadRequestError:
        return
    assert checked.records + checked.refused.total() <= 3
