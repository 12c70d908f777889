"""OTLP data round-trips unchanged through validation and the engine."""

import base64
import json
import math
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.collector.store.conftest import RECEIVED
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES
from tracereel_collector.ingest.otlp_values import as_json
from tracereel_collector.model import Kind

door = OtlpCheck(why_no_event=lambda _line, _tenant: "not asked")
MANY = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(),
    texts,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=12,
)
attributes = st.dictionaries(texts, values, max_size=4)
moments = st.one_of(st.integers(0, 2**63 - 1), st.just(0), st.just(1_794_794_400_000_000_000))


def fill(target: AnyValue, value: object) -> AnyValue:
    if value is None:
        return target
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, list):
        target.array_value.SetInParent()
        for each in value:
            fill(target.array_value.values.add(), each)
    else:
        target.kvlist_value.SetInParent()
        for key, each in value.items():
            fill(target.kvlist_value.values.add(key=key).value, each)
    return target


def add_all(target, given):
    for key, value in given.items():
        # Exporters set the value even if it is empty.
        pair = target.add(key=key)
        pair.value.SetInParent()
        fill(pair.value, value)


def text(value):
    """Return the displayed text: strings and bytes bare, everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return as_json(fill(AnyValue(), value)).strip('"')


def shown(given):
    return {key: text(value) for key, value in given.items()}


def insert(store, queued, signal, request):
    checked = door.protobuf(signal, request.SerializeToString(), tenant="default")
    body = queued(checked.data, records=checked.records, kind=signal.kind)
    store.insert(signal.kind, [body], token=uuid.uuid4().hex)
    return checked


def rows(store, table, columns="*", order="TimeUnix"):
    answer = store.select(
        f"SELECT {columns} FROM {table} ORDER BY {order}"
        " SETTINGS output_format_json_quote_64bit_integers = 0,"
        " output_format_json_quote_denormals = 1",
        {},
        fmt="JSONEachRow",
    )
    return [json.loads(line) for line in answer.splitlines()]


def test_json_text_is_what_python_reads_back_as_the_same_value():
    value = {"a": [1, -0.0, 1e21, 1e-7, '\u2028\x00"\\/\n', True, None, {"b": [b"\xff"]}]}

    written = as_json(fill(AnyValue(), value))

    assert json.loads(written) == {
        "a": [1, -0.0, 1e21, 1e-7, '\u2028\x00"\\/\n', True, None, {"b": ["/w=="]}]
    }


@given(st.lists(st.tuples(attributes, attributes, texts, moments), min_size=1, max_size=8))
@MANY
def test_spans(store, queued, drawn):
    store.command("TRUNCATE TABLE otel_spans")
    request = ExportTraceServiceRequest()
    for index, (given_attributes, of_resource, name, start) in enumerate(drawn):
        resource = request.resource_spans.add()
        add_all(resource.resource.attributes, of_resource)
        span = resource.scope_spans.add().spans.add(
            name=name,
            trace_id=bytes([index + 1]) * 16,
            span_id=bytes([index + 1]) * 8,
            start_time_unix_nano=start,
            end_time_unix_nano=start,
        )
        add_all(span.attributes, given_attributes)
        add_all(span.events.add(name=name).attributes, given_attributes)
        link = span.links.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, trace_state=name)
        add_all(link.attributes, given_attributes)

    checked = insert(store, queued, TRACES, request)

    assert (checked.records, checked.refused.total()) == (len(drawn), 0)
    stored = rows(
        store,
        "otel_spans",
        "SpanName, SpanAttributes, ResourceAttributes, Events.Attributes AS e,"
        " Links.Attributes AS l, toUnixTimestamp64Nano(Timestamp) AS at",
        "TraceId",
    )
    assert stored == [
        {
            "SpanName": name,
            "SpanAttributes": shown(given_attributes),
            "ResourceAttributes": shown(of_resource),
            "e": [shown(given_attributes)],
            "l": [shown(given_attributes)],
            "at": start,
        }
        for given_attributes, of_resource, name, start in drawn
    ]


@given(
    st.lists(
        st.tuples(values, attributes, attributes, texts, moments, st.integers(0, 24)),
        min_size=1,
        max_size=8,
    )
)
@MANY
def test_logs(store, queued, drawn):
    store.command("TRUNCATE TABLE otel_logs")
    request = ExportLogsServiceRequest()
    for index, (body, given_attributes, of_scope, name, at, severity) in enumerate(drawn):
        scope = request.resource_logs.add(schema_url=name).scope_logs.add(schema_url=name)
        scope.scope.name = name
        add_all(scope.scope.attributes, of_scope)
        record = scope.log_records.add(
            time_unix_nano=at,
            severity_number=severity,
            severity_text=name,
            event_name=name,
            flags=1,
            trace_id=bytes([index + 1]) * 16,
            span_id=bytes([index + 1]) * 8,
        )
        fill(record.body, body)
        add_all(record.attributes, given_attributes)

    checked = insert(store, queued, LOGS, request)

    assert checked.records == len(drawn)
    stored = rows(
        store,
        "otel_logs",
        "Body, LogAttributes, ScopeAttributes, ScopeName, EventName, SeverityText,"
        " SeverityNumber, ResourceSchemaUrl, ScopeSchemaUrl, TraceFlags,"
        " toUnixTimestamp64Nano(Timestamp) AS at",
        "TraceId",
    )
    assert stored == [
        {
            "Body": text(body),
            "LogAttributes": shown(given_attributes),
            "ScopeAttributes": shown(of_scope),
            "ScopeName": name,
            "EventName": name,
            "SeverityText": name,
            "SeverityNumber": severity,
            "ResourceSchemaUrl": name,
            "ScopeSchemaUrl": name,
            "TraceFlags": 1,
            "at": at or RECEIVED,
        }
        for body, given_attributes, of_scope, name, at, severity in drawn
    ]


numbers = st.floats()
counts = st.integers(0, 2**64 - 1)
optional_numbers = st.one_of(st.none(), numbers)


def same(stored, sent):
    if isinstance(sent, float) and math.isnan(sent):
        # Some versions show the sign: "-nan".
        return stored is not None and math.isnan(float(stored))
    return float(stored) == sent if isinstance(sent, float) else stored == sent


def points(store, name):
    return rows(store, f"otel_metrics_{name}")


@given(
    attributes,
    st.one_of(numbers, st.integers(-(2**63), 2**63 - 1)),
    st.lists(counts, max_size=4),
    optional_numbers,
    texts,
    st.integers(-(2**31), 2**31 - 1),
)
@MANY
def test_metrics(store, queued, given_attributes, value, buckets, total, name, scale):
    for table in ("gauge", "sum", "histogram", "exponential_histogram", "summary"):
        store.command(f"TRUNCATE TABLE otel_metrics_{table}")
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add(schema_url=name).scope_metrics.add()
    place = {"time_unix_nano": 5, "start_time_unix_nano": 4, "flags": 1}
    number = {"as_int" if isinstance(value, int) else "as_double": value}
    optional = {} if total is None else {"sum": total, "min": total, "max": total}
    metrics = [scope.metrics.add(name=f"m{name}", description=name, unit=name) for _ in range(5)]
    gauge = metrics[0].gauge.data_points.add(**place, **number)
    exemplar = gauge.exemplars.add(
        time_unix_nano=3, trace_id=b"\1" * 16, span_id=b"\2" * 8, **number
    )
    add_all(exemplar.filtered_attributes, given_attributes)
    metrics[1].sum.aggregation_temporality = 2
    metrics[1].sum.is_monotonic = True
    summed = metrics[1].sum.data_points.add(**place, **number)
    histogram = metrics[2].histogram.data_points.add(
        **place, count=7, bucket_counts=buckets, explicit_bounds=[0.5, 1.0], **optional
    )
    exponential = metrics[3].exponential_histogram.data_points.add(
        **place, count=7, scale=scale, zero_count=3, zero_threshold=0.25, **optional
    )
    exponential.positive.offset = scale
    exponential.positive.bucket_counts.extend(buckets)
    summary = metrics[4].summary.data_points.add(**place, count=7, sum=1.5)
    summary.quantile_values.add(quantile=0.5, value=2.5)
    for point in (gauge, summed, histogram, exponential, summary):
        add_all(point.attributes, given_attributes)

    checked = insert(store, queued, METRICS, request)

    assert checked.records == 5
    ((one,), (two,), (three,), (four,), (five,)) = [
        points(store, table)
        for table in ("gauge", "sum", "histogram", "exponential_histogram", "summary")
    ]
    for row in (one, two, three, four, five):
        assert row["Attributes"] == shown(given_attributes)
        assert (row["MetricName"], row["MetricUnit"]) == (f"m{name}", name)
        assert (row["MetricDescription"], row["ResourceSchemaUrl"]) == (name, name)
        assert (row["TimeUnix"], row["StartTimeUnix"]) == (
            "1970-01-01 00:00:00.000000005",
            "1970-01-01 00:00:00.000000004",
        )
        assert (row["Flags"], row["TenantId"]) == (1, "default")
    for row in (one, two):
        assert same(row["Value"], float(value))
        assert row["IntValue"] == (value if isinstance(value, int) else None)
    assert one["Exemplars.FilteredAttributes"] == [shown(given_attributes)]
    assert one["Exemplars.TraceId"] == ["01" * 16]
    assert same(one["Exemplars.Value"][0], float(value))
    assert (two["AggregationTemporality"], two["IsMonotonic"]) == (2, True)
    for row in (three, four):
        assert row["HasSum"] == row["HasMin"] == row["HasMax"] == (total is not None)
        expected = 0.0 if total is None else total  # not `or`: negative zero is kept too
        assert all(same(row[each], expected) for each in ("Sum", "Min", "Max"))
        assert row["Count"] == 7
    assert (three["BucketCounts"], three["ExplicitBounds"]) == (buckets, [0.5, 1.0])
    assert (four["Scale"], four["ZeroCount"], four["ZeroThreshold"]) == (scale, 3, 0.25)
    assert (four["PositiveOffset"], four["PositiveBucketCounts"]) == (scale, buckets)
    assert (five["Count"], five["Sum"]) == (7, 1.5)
    assert (five["ValueAtQuantiles.Quantile"], five["ValueAtQuantiles.Value"]) == ([0.5], [2.5])


@pytest.mark.parametrize("signal", [LOGS, METRICS], ids=["logs", "metrics"])
def test_the_same_token_stores_once(store, queued, token, signal):
    """Also through the intermediate table of metric points."""
    if signal is LOGS:
        request, table = ExportLogsServiceRequest(), "otel_logs"
        request.resource_logs.add().scope_logs.add().log_records.add(severity_text="once")
    else:
        request, table = ExportMetricsServiceRequest(), "otel_metrics_gauge"
        metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="once")
        metric.gauge.data_points.add(as_int=1)
    store.command(f"TRUNCATE TABLE {table}")
    body = queued(request.SerializeToString(), records=1, kind=signal.kind)

    for each in (token, token, token + "b", token):
        store.insert(signal.kind, [body], token=each)

    assert store.rows(f"SELECT count() FROM {table}") == [("2",)]


def test_times_after_2262_are_clamped_and_kept_beside(store, queued, token):
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=2**64 - 1)
    store.command("TRUNCATE TABLE otel_logs")

    store.insert(
        Kind.LOGS, [queued(request.SerializeToString(), records=1, kind=Kind.LOGS)], token=token
    )

    columns = "toYear(Timestamp), OriginalTimeUnixNano"
    assert store.rows(f"SELECT {columns} FROM otel_logs") == [("2262", str(2**64 - 1))]
