"""OTLP values as Python objects and as the JSON text that the engine writes."""

import base64
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from google.protobuf.message import Message

from tracereel_collector.model import OTLP_DEPTH

_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(32), 0x2028, 0x2029)} | str.maketrans(
    {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
)
_EXPONENT_BELOW, _EXPONENT_ABOVE = -6, 21


def messages_in(value: Any) -> Iterator[Any]:
    """Return the messages in the value of a field, repeated or not."""
    return iter((value,)) if isinstance(value, Message) else iter(value)


def as_json(value: Any) -> str:
    """Convert an `AnyValue` to JSON text, byte for byte as the engine writes it."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return _quoted(value.string_value)
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        return _number(value.double_value)
    if kind == "bytes_value":
        return f'"{base64.b64encode(value.bytes_value).decode()}"'
    if kind == "array_value":
        return f"[{','.join(as_json(each) for each in value.array_value.values)}]"
    if kind == "kvlist_value":
        pairs = (f"{_quoted(e.key)}:{as_json(e.value)}" for e in value.kvlist_value.values)
        return f"{{{','.join(pairs)}}}"
    return "null"


def as_plain(value: Any) -> Any:
    """Convert an `AnyValue` to a Python value; bytes as base64, NaN and infinity as text."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [as_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: as_plain(each.value) for each in value.kvlist_value.values}
    plain = getattr(value, kind)
    if kind == "bytes_value":
        return base64.b64encode(plain).decode()
    if kind == "double_value" and not math.isfinite(plain):
        return _name(plain)
    return plain


def is_deeper(value: Any, levels: int = OTLP_DEPTH) -> bool:
    """Return whether lists and maps are nested deeper than `levels`."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        inner = value.array_value.values
        return not levels or any(is_deeper(each, levels - 1) for each in inner)
    if kind == "kvlist_value":
        pairs = value.kvlist_value.values
        return not levels or any(is_deeper(each.value, levels - 1) for each in pairs)
    return False


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _name(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _number(number: float) -> str:
    if not math.isfinite(number):
        return f'"{_name(number)}"'
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    if not number:
        text = "0"
    elif not _EXPONENT_BELOW < point <= _EXPONENT_ABOVE:
        text = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{point - 1}"
    elif point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        whole, rest = text[:point].ljust(point, "0"), text[point:]
        text = f"{whole}.{rest}" if rest else whole
    return f"-{text}" if sign else text
