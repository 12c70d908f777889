"""Typed attribute values: the store keeps strings and, beside them, their OTLP types."""

import math
import re
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from tracereel import events, semconv
from tracereel_collector.store.dialects.own import MORE_ATTRIBUTES

TEXT, BOOL, INT, DOUBLE, LIST, MAP, BYTES = range(1, 8)
"""Type numbers of OTLP's `AnyValue`, as in the column `AttributeTypes`."""
Types = Mapping[str, int]

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_SAFE_INTEGER: Final = 2**53 - 1
_MAX_INTEGER: Final = 2**63
_NUMBERS = {bool: BOOL, int: INT, float: DOUBLE}
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


def plain_value(text: str, kind: int) -> Any:
    """Return a value as it was sent, for JSON."""
    found, value = _value(text, kind)
    if found in (LIST, MAP):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return value


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
    names = {field: (*own, *MORE_ATTRIBUTES.get(field, ())) for field, own in _attributes().items()}
    found: dict[str, int] = {}
    for model in _models(events.Envelope):
        for field, described in model.model_fields.items():
            kind = next((_NUMBERS[each] for each in _bases(described.annotation)), None)
            if kind is not None:
                found.update(dict.fromkeys(names.get(field, ()), kind))
                found.update(dict.fromkeys(MORE_ATTRIBUTES.get(field, ()), kind))
    return found


def _attributes() -> dict[str, tuple[str, ...]]:
    joined = dict(semconv.SPAN_ATTRIBUTES)
    for _, fields in semconv.SPAN_EVENTS.values():
        for field, attribute in fields.items():
            joined[field] = (*joined.get(field, ()), attribute)
    return joined


def _models(base: type[events.Envelope]) -> Iterable[type[events.Envelope]]:
    yield base
    for each in base.__subclasses__():
        yield from _models(each)


def _bases(annotation: Any) -> Iterable[type]:
    """Yield the numeric types in an annotation, through `Annotated` and unions."""
    if get_origin(annotation) is Annotated:
        yield from _bases(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _bases(each)
    elif get_origin(annotation) is Literal:
        return
    elif annotation in _NUMBERS:
        yield annotation
