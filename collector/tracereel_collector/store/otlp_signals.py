"""OTLP logs and metrics as protobuf schemas, column types and SQL, based on `otlp_types`."""

from tracereel_collector.store.otlp_types import (
    ATTRIBUTES,
    DEPTH,
    VALUE,
    VALUE_MESSAGES,
    attribute_maps,
    value_text,
)

MAX_UNIX_NANO = 2**63 - 1
"""Last time that `DateTime64(9)` can represent, in the year 2262."""

_COMMON = (
    'syntax = "proto3";\n'
    + VALUE_MESSAGES
    + f"""message KeyValue {{ string key = 1; Value{DEPTH} value = 2; }}
message Resource {{ repeated KeyValue attributes = 1; }}
message Scope {{ string name = 1; string version = 2; repeated KeyValue attributes = 3;
  uint32 dropped_attributes_count = 4; }}
message Body {{ string tenant = 1; uint64 first_sequence_number = 2;
  uint64 received_unix_nano = 3; Request request = 4; }}
"""
)

LOGS_SCHEMA = (
    _COMMON
    + f"""message LogRecord {{ fixed64 time_unix_nano = 1; int32 severity_number = 2;
  string severity_text = 3; Value{DEPTH} body = 5; repeated KeyValue attributes = 6;
  uint32 dropped_attributes_count = 7; fixed32 flags = 8; bytes trace_id = 9; bytes span_id = 10;
  fixed64 observed_time_unix_nano = 11; string event_name = 12; }}
message ScopeLogs {{ Scope scope = 1; repeated LogRecord log_records = 2; string schema_url = 3; }}
message ResourceLogs {{ Resource resource = 1; repeated ScopeLogs scope_logs = 2;
  string schema_url = 3; }}
message Request {{ repeated ResourceLogs resource_logs = 1; }}
"""
)

METRICS_SCHEMA = (
    _COMMON
    + """message Exemplar { fixed64 time_unix_nano = 2; bytes span_id = 4; bytes trace_id = 5;
  repeated KeyValue filtered_attributes = 7;
  oneof value { double as_double = 3; sfixed64 as_int = 6; } }
message NumberPoint { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
  repeated Exemplar exemplars = 5; repeated KeyValue attributes = 7; uint32 flags = 8;
  oneof value { double as_double = 4; sfixed64 as_int = 6; } }
message HistogramPoint { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
  fixed64 count = 4; repeated fixed64 bucket_counts = 6; repeated double explicit_bounds = 7;
  repeated Exemplar exemplars = 8; repeated KeyValue attributes = 9; uint32 flags = 10;
  oneof has_sum { double sum = 5; } oneof has_min { double min = 11; }
  oneof has_max { double max = 12; } }
message Buckets { sint32 offset = 1; repeated uint64 bucket_counts = 2; }
message ExponentialPoint { repeated KeyValue attributes = 1; fixed64 start_time_unix_nano = 2;
  fixed64 time_unix_nano = 3; fixed64 count = 4; sint32 scale = 6; fixed64 zero_count = 7;
  Buckets positive = 8; Buckets negative = 9; uint32 flags = 10; repeated Exemplar exemplars = 11;
  double zero_threshold = 14; oneof has_sum { double sum = 5; } oneof has_min { double min = 12; }
  oneof has_max { double max = 13; } }
message Quantile { double quantile = 1; double value = 2; }
message SummaryPoint { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3;
  fixed64 count = 4; double sum = 5; repeated Quantile quantile_values = 6;
  repeated KeyValue attributes = 7; uint32 flags = 8; }
message Gauge { repeated NumberPoint data_points = 1; }
message Sum { repeated NumberPoint data_points = 1; int32 aggregation_temporality = 2;
  bool is_monotonic = 3; }
message Histogram { repeated HistogramPoint data_points = 1; int32 aggregation_temporality = 2; }
message ExponentialHistogram { repeated ExponentialPoint data_points = 1;
  int32 aggregation_temporality = 2; }
message Summary { repeated SummaryPoint data_points = 1; }
message Metric { string name = 1; string description = 2; string unit = 3; Gauge gauge = 5;
  Sum sum = 7; Histogram histogram = 9; ExponentialHistogram exponential_histogram = 10;
  Summary summary = 11; }
message ScopeMetrics { Scope scope = 1; repeated Metric metrics = 2; string schema_url = 3; }
message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2;
  string schema_url = 3; }
message Request { repeated ResourceMetrics resource_metrics = 1; }
"""
)

_SCOPE = (
    "scope Tuple(name String, version String,"
    f" attributes {ATTRIBUTES}, dropped_attributes_count UInt32)"
)
_LOG_RECORD = (
    "Tuple(time_unix_nano UInt64, severity_number Int32, severity_text String,"
    f" body {VALUE}, attributes {ATTRIBUTES}, dropped_attributes_count UInt32, flags UInt32,"
    " trace_id String, span_id String, observed_time_unix_nano UInt64, event_name String)"
)


def _request_type(signal: str, records: str, record: str) -> str:
    return (
        f"Tuple(resource_{signal} Array(Tuple(resource Tuple(attributes {ATTRIBUTES}),"
        f" schema_url String, scope_{signal} Array(Tuple({_SCOPE}, schema_url String,"
        f" {records} Array({record}))))))"
    )


_TIMES = "start_time_unix_nano UInt64, time_unix_nano UInt64"
_PLACE = f"{_TIMES}, attributes {ATTRIBUTES}, flags UInt32"
_NUMBER = "as_double Float64, as_int Int64"
_EXEMPLARS = (
    f"exemplars Array(Tuple(filtered_attributes {ATTRIBUTES}, time_unix_nano UInt64,"
    f" span_id String, trace_id String,"
    f" value Enum8('none' = 0, 'as_double' = 3, 'as_int' = 6), {_NUMBER}))"
)


def _present(name: str, number: int) -> str:
    """Return the columns of an optional number: its presence and its value."""
    return f"has_{name} Enum8('none' = 0, '{name}' = {number}), {name} Float64"


_NUMBER_POINT = (
    f"Tuple({_PLACE}, {_EXEMPLARS},"
    f" value Enum8('none' = 0, 'as_double' = 4, 'as_int' = 6), {_NUMBER})"
)
_HISTOGRAM_POINT = (
    f"Tuple({_PLACE}, {_EXEMPLARS}, count UInt64, {_present('sum', 5)}, {_present('min', 11)},"
    f" {_present('max', 12)}, bucket_counts Array(UInt64), explicit_bounds Array(Float64))"
)
_BUCKETS = "Tuple(offset Int32, bucket_counts Array(UInt64))"
_EXPONENTIAL_POINT = (
    f"Tuple({_PLACE}, {_EXEMPLARS}, count UInt64, {_present('sum', 5)}, {_present('min', 12)},"
    f" {_present('max', 13)}, scale Int32, zero_count UInt64, zero_threshold Float64,"
    f" positive {_BUCKETS}, negative {_BUCKETS})"
)
_SUMMARY_POINT = (
    f"Tuple({_PLACE}, count UInt64, sum Float64,"
    " quantile_values Array(Tuple(quantile Float64, value Float64)))"
)
_METRIC = (
    "Tuple(name String, description String, unit String,"
    f" gauge Tuple(data_points Array({_NUMBER_POINT})),"
    f" sum Tuple(data_points Array({_NUMBER_POINT}), aggregation_temporality Int32,"
    " is_monotonic Bool),"
    f" histogram Tuple(data_points Array({_HISTOGRAM_POINT}), aggregation_temporality Int32),"
    f" exponential_histogram Tuple(data_points Array({_EXPONENTIAL_POINT}),"
    " aggregation_temporality Int32),"
    f" summary Tuple(data_points Array({_SUMMARY_POINT})))"
)


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

_NUMBERS = {
    "is_int": "p.value = 'as_int'",
    "as_double": "p.as_double",
    "as_int": "p.as_int",
}
_DISTRIBUTION = {
    "count": "p.count",
    **{name: f"p.{name}" for name in ("sum", "min", "max")},
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
        "bucket_counts": "p.bucket_counts",
        "explicit_bounds": "p.explicit_bounds",
        "temporality": "m.histogram.aggregation_temporality",
    },
    "exponential_histogram": {
        **_DISTRIBUTION,
        "scale": "p.scale",
        "zero_count": "p.zero_count",
        "zero_threshold": "p.zero_threshold",
        "positive": "(p.positive.offset, p.positive.bucket_counts)",
        "negative": "(p.negative.offset, p.negative.bucket_counts)",
        "temporality": "m.exponential_histogram.aggregation_temporality",
    },
    "summary": {
        "exemplars": "[]",
        "count": "p.count",
        "sum": "p.sum",
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
    "otlp_logs_type": _request_type("logs", "log_records", _LOG_RECORD),
    "otlp_metrics_type": _request_type("metrics", "metrics", _METRIC),
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
"""Values of `$name` in the `.sql` files of logs and metrics."""
