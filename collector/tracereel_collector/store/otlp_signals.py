"""SQL that decodes OTLP values, attributes, log records and points of metrics."""

from tracereel_collector.store.otlp_types import (
    DEPTH,
    LOGS_SCHEMA,
    METRICS_SCHEMA,
    TRACES_SCHEMA,
    column_type,
)

MAX_UNIX_NANO = 2**63 - 1
"""Last time that `DateTime64(9)` can represent, in the year 2262."""


def _json(value: str, level: int) -> str:
    """Return SQL for a value as JSON text."""
    return _text_by_kind(
        value,
        level,
        string=f"toJSONString({value}.string_value)",
        data=f"toJSONString(base64Encode({value}.bytes_value))",
        double=_double(f"{value}.double_value", quote='"'),
        absent="'null'",
    )


def value_text(value: str) -> str:
    """Return SQL for a value as readable text.

    Strings stay as they are, bytes become base64, lists and maps JSON, missing values ''.
    """
    return _text_by_kind(
        value,
        DEPTH,
        string=f"{value}.string_value",
        data=f"base64Encode({value}.bytes_value)",
        double=_double(f"{value}.double_value", quote=""),
        absent="''",
    )


def _text_by_kind(
    value: str, level: int, *, string: str, data: str, double: str, absent: str
) -> str:
    texts = {
        "string_value": string,
        "int_value": f"toString({value}.int_value)",
        "bool_value": f"toString({value}.bool_value)",
        "double_value": double,
        "bytes_value": data,
    }
    if level:
        each = f"v{level}"
        pair = f"concat(toJSONString({each}.key), ':', {_json(f'{each}.value', level - 1)})"
        texts |= {
            "array_value": _joined(
                "[", "]", each, _json(each, level - 1), f"{value}.array_value.values"
            ),
            "kvlist_value": _joined("{", "}", each, pair, f"{value}.kvlist_value.values"),
        }
    branches = [f"{value}.value = '{kind}', {text}" for kind, text in texts.items()]
    return f"multiIf({', '.join(branches)}, {absent})"


def _double(value: str, *, quote: str) -> str:
    """Return SQL for a number as text; NaN and infinities have their OTLP/JSON names."""
    names = [f"'{quote}{name}{quote}'" for name in ("NaN", "Infinity", "-Infinity")]
    text = f"toString({value})"
    return f"transform({text}, ['nan', 'inf', '-inf'], [{', '.join(names)}], {text})"


def _joined(begin: str, end: str, name: str, each: str, values: str) -> str:
    """Return SQL for a comma-separated list of texts in brackets."""
    texts = f"arrayStringConcat(arrayMap({name} -> {each}, {values}), ',')"
    return f"concat('{begin}', {texts}, '{end}')"


def attribute_map(attributes: str) -> str:
    """Return SQL that converts a list of key-values into the exporter's `Map(String, String)`."""
    return (
        f"mapFromArrays(arrayMap(a -> toLowCardinality(a.key), {attributes}),"
        f" arrayMap(a -> {value_text('a.value')}, {attributes}))"
    )


def attribute_maps(lists: str) -> str:
    """Return SQL that converts an array of such lists into an array of maps.

    For a small batch, analysing the expression costs more than running it, so a view uses it only
    once, for all its lists.
    """
    return f"arrayMap(attributes -> {attribute_map('attributes')}, {lists})"


def _typed(attributes: str) -> str:
    """Return SQL for name and type of the attributes that are not strings."""
    pairs = f"arrayMap(a -> (a.key, CAST(a.value.value AS Int8)), {attributes})"
    return f"arrayFilter(p -> p.2 > 1, {pairs})"


def _attribute_types() -> str:
    """Return SQL for the types of a span's non-string attributes; the numbers are protobuf's."""
    lists = [
        _typed("s.attributes"),
        _typed("rs.resource.attributes"),
        f"arrayFlatten(arrayMap(e -> {_typed('e.attributes')}, s.events))",
    ]
    return f"CAST(arrayConcat({', '.join(lists)}) AS Map(LowCardinality(String), UInt8))"


def time(nanoseconds: str) -> str:
    """Return SQL for a time, limited to the last representable one."""
    return f"fromUnixTimestamp64Nano(toInt64(least({nanoseconds}, {MAX_UNIX_NANO})))"


def identifier(value: str, length: int) -> str:
    """Return SQL for a trace or span id in hex; empty if invalid."""
    zeros = "\\0" * length
    valid = f"length({value}) = {length} AND {value} != '{zeros}'"
    return f"if({valid}, lower(hex({value})), '')"


_NO_POINT = {
    "attributes": "p.attributes",
    "start": "p.start_time_unix_nano",
    "time": "p.time_unix_nano",
    "flags": "p.flags",
    "exemplars": "p.exemplars",
    "is_int": "false",
    "as_double": "0.",
    "as_int": "toInt64(0)",
    "count": "toUInt64(0)",
    "sum": "0.",
    "min": "0.",
    "max": "0.",
    "has_sum": "false",
    "has_min": "false",
    "has_max": "false",
    "bucket_counts": "emptyArrayUInt64()",
    "explicit_bounds": "emptyArrayFloat64()",
    "scale": "toInt32(0)",
    "zero_count": "toUInt64(0)",
    "zero_threshold": "0.",
    "positive": "(toInt32(0), emptyArrayUInt64())",
    "negative": "(toInt32(0), emptyArrayUInt64())",
    "quantiles": "emptyArrayFloat64()",
    "quantile_values": "emptyArrayFloat64()",
    "temporality": "toInt32(0)",
    "is_monotonic": "false",
}
"""Fields of a point of any type, with their defaults for types without the field."""


def _of_point(*names: str) -> dict[str, str]:
    return {name: f"p.{name}" for name in names}


_NUMBERS = {"is_int": "p.value = 'as_int'", **_of_point("as_double", "as_int")}
_DISTRIBUTION = {
    **_of_point("count", "sum", "min", "max"),
    **{f"has_{name}": f"p.has_{name} = '{name}'" for name in ("sum", "min", "max")},
}
_POINTS_BY_TYPE = {
    "gauge": _NUMBERS,
    "sum": {
        **_NUMBERS,
        "temporality": "m.sum.aggregation_temporality",
        "is_monotonic": "m.sum.is_monotonic",
    },
    "histogram": {
        **_DISTRIBUTION,
        **_of_point("bucket_counts", "explicit_bounds"),
        "temporality": "m.histogram.aggregation_temporality",
    },
    "exponential_histogram": {
        **_DISTRIBUTION,
        **_of_point("scale", "zero_count", "zero_threshold"),
        "positive": "(p.positive.offset, p.positive.bucket_counts)",
        "negative": "(p.negative.offset, p.negative.bucket_counts)",
        "temporality": "m.exponential_histogram.aggregation_temporality",
    },
    "summary": {
        "exemplars": "[]",
        **_of_point("count", "sum"),
        "quantiles": "arrayMap(q -> q.quantile, p.quantile_values)",
        "quantile_values": "arrayMap(q -> q.value, p.quantile_values)",
    },
}


def _points(metric: str) -> str:
    """Return SQL for the points of a metric of any type, as uniform tuples."""
    lists = [
        f"arrayMap(p -> ('{kind}', {', '.join((_NO_POINT | fields).values())}),"
        f" {metric}.{kind}.data_points)"
        for kind, fields in _POINTS_BY_TYPE.items()
    ]
    return f"arrayConcat({', '.join(lists)})"


_POINT_FIELDS = ", ".join(
    f"point.{position} AS {name}" for position, name in enumerate(("type", *_NO_POINT), 1)
)

FRAGMENTS = {
    "otlp_request_type": column_type(TRACES_SCHEMA),
    "otlp_logs_type": column_type(LOGS_SCHEMA),
    "otlp_metrics_type": column_type(METRICS_SCHEMA),
    "resource_attributes": attribute_map("rs.resource.attributes"),
    "span_attributes": attribute_map("s.attributes"),
    "event_attributes": attribute_map("e.attributes"),
    "link_attributes": attribute_map("l.attributes"),
    "attribute_types": _attribute_types(),
    "log_maps": attribute_maps("[rl.resource.attributes, sl.scope.attributes, r.attributes]"),
    "log_body": value_text("r.body"),
    "log_time": time("sent_at"),
    "log_observed_time": time("r.observed_time_unix_nano"),
    "log_trace_id": identifier("r.trace_id", 16),
    "log_span_id": identifier("r.span_id", 8),
    "points_of_metric": _points("m"),
    "point_fields": _POINT_FIELDS,
    "point_maps": attribute_maps(
        "arrayConcat([resource_attributes, scope_attributes, attributes],"
        " arrayMap(e -> e.filtered_attributes, exemplars))"
    ),
    "point_start": time("start"),
    "point_time": time("time"),
    "exemplar_time": time("e.time_unix_nano"),
    "exemplar_span_id": identifier("e.span_id", 8),
    "exemplar_trace_id": identifier("e.trace_id", 16),
}
"""Values of `$name` in the `.sql` files."""
