"""OTLP messages for the engine: protobuf schemas, and the column types made from them.

A protobuf schema for ClickHouse cannot be recursive, so `AnyValue` is unrolled `DEPTH` levels deep;
deeper values were converted to JSON text when they were received.
`oneof` presence distinguishes zero, false and the empty string from a missing value.
"""

import re

from tracereel_collector.model import OTLP_DEPTH
from tracereel_collector.store.template import rendered

DEPTH = OTLP_DEPTH

_SCALARS = (
    "string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;"
    " bytes bytes_value = 7;"
)
_COLUMNS = {
    "string": "String",
    "bytes": "String",
    "bool": "Bool",
    "double": "Float64",
    "int32": "Int32",
    "sint32": "Int32",
    "int64": "Int64",
    "sfixed64": "Int64",
    "uint32": "UInt32",
    "fixed32": "UInt32",
    "uint64": "UInt64",
    "fixed64": "UInt64",
}
"""Column types of protobuf's scalar types."""
_NAME = r"(\w{1,64})"
_MEMBER = re.compile(
    rf"\boneof {_NAME} \{{([^{{}}]{{1,500}})\}}|\b(repeated )?{_NAME} {_NAME} = (\d{{1,4}});"
)


def _value_message(level: int) -> str:
    """Return `Value<level>` and its list and map messages; level 0 holds scalars only."""
    if not level:
        return f"message Value0 {{ oneof value {{ {_SCALARS} }} }}\n"
    below = level - 1
    lists = f"List{below} array_value = 5; Map{below} kvlist_value = 6;"
    return (
        _value_message(below)
        + f"message Pair{below} {{ string key = 1; Value{below} value = 2; }}\n"
        + f"message List{below} {{ repeated Value{below} values = 1; }}\n"
        + f"message Map{below} {{ repeated Pair{below} values = 1; }}\n"
        + f"message Value{level} {{ oneof value {{ {_SCALARS} {lists} }} }}\n"
    )


def _schema(signal: str) -> str:
    """Return a schema with one line per message; it is sent with every insert."""
    files = [rendered(f"otlp_{part}.proto", value=f"Value{DEPTH}") for part in ("common", signal)]
    messages = re.sub(r"\n +|\n(?=})", " ", "\n".join(files))
    return 'syntax = "proto3";\n' + _value_message(DEPTH) + messages


def column_type(schema: str, message: str = "Request") -> str:
    """Return the column type of a message; a `oneof` has a column that names the field set."""
    body = schema.split(f"message {message} {{", 1)[1].split("\nmessage ", 1)[0]
    columns = []
    for oneof, choices, repeated, kind, name, _ in _MEMBER.findall(body):
        if oneof:
            fields = _MEMBER.findall(choices)
            numbers = ["'none' = 0", *(f"'{field[4]}' = {field[5]}" for field in fields)]
            columns.append(f"{oneof} Enum8({', '.join(numbers)})")
            columns += [f"{field[4]} {_column(schema, field[3])}" for field in fields]
        else:
            inner = _column(schema, kind)
            columns.append(f"{name} Array({inner})" if repeated else f"{name} {inner}")
    return f"Tuple({', '.join(columns)})"


def _column(schema: str, kind: str) -> str:
    return _COLUMNS.get(kind) or column_type(schema, kind)


TRACES_SCHEMA, LOGS_SCHEMA, METRICS_SCHEMA = map(_schema, ("traces", "logs", "metrics"))
