"""Typed attribute values: the store keeps strings and, beside them, their OTLP types."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tracereel import semconv
from tracereel.events_schema import json_schema
from tracereel_collector.store.dialects.own import MORE_ATTRIBUTES

TEXT, BOOL, INT, DOUBLE, LIST, MAP, BYTES = range(1, 8)
"""Type numbers of OTLP's `AnyValue`, as in the column `AttributeTypes`."""
Types = Mapping[str, int]

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_SAFE_INTEGER: Final = 2**53 - 1
_MAX_INTEGER: Final = 2**63
_NUMBERS = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_NAMED = ("NaN", "Infinity", "-Infinity")


def _value(text: str, kind: int) -> tuple[int, Any]:
    """Return type and value of a string; invalid values stay strings."""
    if kind == BOOL and text in ("true", "false"):
        return BOOL, text == "true"
    if kind == INT and _INTEGER.fullmatch(text) and -_MAX_INTEGER <= int(text) < _MAX_INTEGER:
        return INT, int(text)
    if kind == DOUBLE:
        if text in _NAMED:
            return DOUBLE, text
        try:
            number = float(text)
        except ValueError:
            return TEXT, text
        return (DOUBLE, number) if math.isfinite(number) else (TEXT, text)
    return (kind if kind in (BYTES, LIST, MAP) else TEXT), text


def tag(key: str, text: str, kind: int) -> dict[str, Any]:
    """Return a tag of the legacy API; lists, maps and large integers become strings."""
    found, value = _value(text, kind)
    if found == INT and abs(value) > _SAFE_INTEGER:
        value = text
    name = {BOOL: "bool", INT: "int64", DOUBLE: "float64", BYTES: "binary"}.get(found, "string")
    return {"key": key, "type": name, "value": value}


def any_value(text: str, kind: int) -> dict[str, Any]:
    """Return an OTLP JSON value; 64-bit integers are strings."""
    found, value = _value(text, kind)
    if found in (LIST, MAP):
        try:
            return _of_json(msgspec.json.decode(text))
        except msgspec.DecodeError:
            return {"stringValue": text}
    name = {BOOL: "boolValue", INT: "intValue", DOUBLE: "doubleValue", BYTES: "bytesValue"}.get(
        found, "stringValue"
    )
    return {name: text if found == INT else value}


def _of_json(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_of_json(each) for each in value]}}
        case dict():
            pairs = [{"key": key, "value": _of_json(each)} for key, each in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case None:
            return {}
    return {"stringValue": str(value)}


@cache
def own_types() -> Types:
    """Return the attribute types of spans made from events, derived from the contract."""
    attributes: dict[str, list[str]] = defaultdict(list)
    for field, names in (*semconv.SPAN_ATTRIBUTES.items(), *MORE_ATTRIBUTES.items()):
        attributes[field] += names
    for _, fields in semconv.SPAN_EVENTS.values():
        for field, name in fields.items():
            attributes[field].append(name)
    found: dict[str, int] = {}
    for definition in json_schema()["$defs"].values():
        for field, schema in definition["properties"].items():
            kinds = [option.get("type") for option in schema.get("anyOf", [schema])]
            if kind := next((_NUMBERS[each] for each in kinds if each in _NUMBERS), None):
                found |= dict.fromkeys(attributes[field], kind)
    return found
