"""Unusually encoded protobuf is readable by the engine too, so no batch gets stuck."""

import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.model import Kind

door = OtlpCheck(why_no_event=lambda _line: "not asked")


def request_with(**fields):
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name="odd", trace_id=b"\1" * 16, span_id=b"\2" * 8, **fields)
    )
    return request, span


def names(store):
    return [row[0] for row in store.rows("SELECT SpanName FROM otel_spans ORDER BY SpanName")]


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def span_with(extra):
    """Return a request with a span that ends in custom bytes."""
    span = field(1, b"\1" * 16) + field(2, b"\2" * 8) + field(5, b"odd") + extra
    return field(1, field(2, field(2, span)))


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(b"\x28\x01", id="a string field as a number"),
        pytest.param(b"\x4a\x02\x12\x00\x48\x05", id="a message field as a number"),
        pytest.param(
            field(9, field(1, b"k") + field(2, field(1, b"text") + b"\x18\x05")),
            id="two values in one oneof",
        ),
        pytest.param(
            field(9, field(1, b"k") + field(2, b"\x08\x05")), id="a text value as a number"
        ),
        pytest.param(field(9, field(1, b"k") + field(2, b"\x10\x78")), id="a truth value of 120"),
    ],
)
def test_an_oddly_written_span_is_stored_with_the_others(store, queued, token, extra):
    plain, span = request_with()
    span.name = "plain"
    bodies = [
        queued(data, records=1, kind=Kind.SPANS)
        for data in (plain.SerializeToString(), span_with(extra))
    ]
    for body in bodies:
        assert door.protobuf(TRACES, body.data, tenant="t").data is body.data

    for _ in range(2):
        store.insert(Kind.SPANS, bodies, token=token)

    assert names(store) == ["odd", "plain"]


@given(st.data())
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
def test_damaged_requests_that_pass_the_door_are_stored_span_for_span(store, queued, data):
    store.command("TRUNCATE TABLE otel_spans")
    request, span = request_with(start_time_unix_nano=5, end_time_unix_nano=7)
    span.attributes.add(key="list").value.array_value.values.add().string_value = "x"
    span.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.double_value = 1.5
    span.events.add(name="event", time_unix_nano=6)
    span.links.add(trace_id=b"\3" * 16, span_id=b"\4" * 8)
    span.status.code = 2
    original = request.SerializeToString()
    bodies = []
    for _ in range(60):
        damaged = bytearray(original)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        try:
            checked = door.protobuf(TRACES, bytes(damaged), tenant="t")
        except BadRequestError:
            continue
        bodies.append(queued(checked.data, records=checked.records, kind=Kind.SPANS))

    if bodies:
        store.insert(Kind.SPANS, bodies, token=uuid.uuid4().hex)

    assert len(names(store)) == sum(body.records for body in bodies)
