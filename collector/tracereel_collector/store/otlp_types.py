"""OTLP messages in three forms for the engine: protobuf schema, column types, map expressions.

A protobuf schema for ClickHouse cannot be recursive, so `AnyValue` is unrolled `DEPTH` levels deep;
deeper values were converted to JSON text when they were received.
`oneof` presence distinguishes zero, false and the empty string from a missing value.
"""

from tracereel_collector.model import OTLP_DEPTH

DEPTH = OTLP_DEPTH

_SCALARS = (
    ("string_value", 1, "string", "String"),
    ("bool_value", 2, "bool", "Bool"),
    ("int_value", 3, "int64", "Int64"),
    ("double_value", 4, "double", "Float64"),
    ("bytes_value", 7, "bytes", "String"),
)


def _value_message(level: int) -> str:
    """Return `Value<level>` and its list and map messages; level 0 holds scalars only."""
    fields = [f"{proto} {name} = {number};" for name, number, proto, _ in _SCALARS]
    inner = ""
    if level:
        below = level - 1
        inner = (
            _value_message(below)
            + f"message Pair{below} {{ string key = 1; Value{below} value = 2; }}\n"
            + f"message List{below} {{ repeated Value{below} values = 1; }}\n"
            + f"message Map{below} {{ repeated Pair{below} values = 1; }}\n"
        )
        fields += [f"List{below} array_value = 5;", f"Map{below} kvlist_value = 6;"]
    return inner + f"message Value{level} {{ oneof value {{ {' '.join(fields)} }} }}\n"


VALUE_MESSAGES = _value_message(DEPTH)
"""`AnyValue` as protobuf messages, named `Value<DEPTH>`."""

PROTO_SCHEMA = (
    'syntax = "proto3";\n'
    + VALUE_MESSAGES
    + f"""message KeyValue {{ string key = 1; Value{DEPTH} value = 2; }}
message Resource {{ repeated KeyValue attributes = 1; }}
message Scope {{ string name = 1; string version = 2; }}
message Status {{ string message = 2; int32 code = 3; }}
message Event {{ fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }}
message Link {{ bytes trace_id = 1; bytes span_id = 2; string trace_state = 3;
  repeated KeyValue attributes = 4; }}
message Span {{ bytes trace_id = 1; bytes span_id = 2; string trace_state = 3;
  bytes parent_span_id = 4; string name = 5; int32 kind = 6; fixed64 start_time_unix_nano = 7;
  fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9; repeated Event events = 11;
  repeated Link links = 13; Status status = 15; }}
message ScopeSpans {{ Scope scope = 1; repeated Span spans = 2; }}
message ResourceSpans {{ Resource resource = 1; repeated ScopeSpans scope_spans = 2; }}
message Request {{ repeated ResourceSpans resource_spans = 1; }}
message Body {{ string tenant = 1; uint64 first_sequence_number = 2;
  uint64 received_unix_nano = 3; Request request = 4; }}
"""
)


def _value_type(level: int) -> str:
    present = ["'none' = 0", *(f"'{name}' = {number}" for name, number, _, _ in _SCALARS)]
    columns = [f"{name} {column}" for name, _, _, column in _SCALARS]
    if level:
        below = _value_type(level - 1)
        present += ["'array_value' = 5", "'kvlist_value' = 6"]
        columns += [
            f"array_value Tuple(values Array({below}))",
            f"kvlist_value Tuple(values Array(Tuple(key String, value {below})))",
        ]
    return f"Tuple(value Enum8({', '.join(present)}), {', '.join(columns)})"


VALUE = _value_type(DEPTH)
ATTRIBUTES = _ATTRIBUTES = f"Array(Tuple(key String, value {VALUE}))"
_EVENTS = f"Array(Tuple(time_unix_nano UInt64, name String, attributes {_ATTRIBUTES}))"
_LINKS = (
    f"Array(Tuple(trace_id String, span_id String, trace_state String, attributes {_ATTRIBUTES}))"
)
_SPAN = (
    "Tuple(trace_id String, span_id String, trace_state String, parent_span_id String, name String,"
    " kind Int32, start_time_unix_nano UInt64, end_time_unix_nano UInt64,"
    f" attributes {_ATTRIBUTES}, events {_EVENTS}, links {_LINKS},"
    " status Tuple(message String, code Int32))"
)
REQUEST_TYPE = (
    f"Tuple(resource_spans Array(Tuple(resource Tuple(attributes {_ATTRIBUTES}),"
    f" scope_spans Array(Tuple(scope Tuple(name String, version String), spans Array({_SPAN}))))))"
)


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


FRAGMENTS = {
    "otlp_request_type": REQUEST_TYPE,
    "resource_attributes": attribute_map("rs.resource.attributes"),
    "span_attributes": attribute_map("s.attributes"),
    "event_attributes": attribute_map("e.attributes"),
    "link_attributes": attribute_map("l.attributes"),
    "attribute_types": _attribute_types(),
}
"""Values of `$name` in the `.sql` files."""
