"""Decoder of OTLP JSON into protobuf messages: hex ids, integers as text, unknown fields ignored."""

import base64
import binascii
import json
import math
import re
from collections import Counter
from functools import cache
from typing import Any

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.objects import MAX_OBJECTS, has_more_json, too_many_objects
from tracereel_collector.ingest.otlp_mend import BAD_TEXT
from tracereel_collector.ingest.otlp_schema import Signal

MAX_LEVELS = 200
"""Most nested objects; a level of an attribute value takes three of them."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_NUMERAL = re.compile(r"-?\d{1,20}", re.ASCII)
_HEX_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id"})
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


class _BadValueError(Exception):
    """Invalid value of a field; callers add the path to it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []


def request_from_json(
    signal: Signal, data: bytes, *, max_objects: int = MAX_OBJECTS
) -> tuple[Any, Counter[str]]:
    """Decode a JSON body; also return counts of corrected texts."""
    if has_more_json(data, max_objects):
        raise too_many_objects(max_objects)
    mended: Counter[str] = Counter()
    request = signal.request()
    if not data.strip():
        return request, mended
    try:
        document = _document(data, mended)
        if not isinstance(document, dict):
            raise _BadValueError(f"expected a JSON object; got {_shown(document)}")
        _fill(request, document, MAX_LEVELS, mended)
    except _BadValueError as error:
        path = "".join(reversed(error.path)).lstrip(".")
        where = f"{path}: " if path else ""
        raise BadRequestError(
            f"the body is not an OTLP {signal.request.DESCRIPTOR.name} in JSON: {where}{error}"
        ) from error
    return request, mended


def _document(data: bytes, mended: Counter[str]) -> Any:
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise _BadValueError("nested too deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Invalid UTF-8, lone surrogates or numbers too large for a double: decode leniently.
        text = data.decode("utf-8", "replace")
        mended[BAD_TEXT] += text.encode() != data
    try:
        return json.loads(text)
    except RecursionError as error:
        raise _BadValueError("nested too deep") from error
    except ValueError as error:
        raise _BadValueError(f"not valid JSON: {error}") from error


@cache
def _fields(message: Descriptor) -> dict[str, FieldDescriptor]:
    """Return fields by JSON name and, leniently, by protobuf name."""
    fields = {field.name: field for field in message.fields}
    return fields | {field.camelcase_name: field for field in message.fields}


def _fill(message: Any, document: dict[str, Any], levels: int, mended: Counter[str]) -> None:
    if not levels:
        raise _BadValueError(f"nested too deep; at most {MAX_LEVELS} levels are accepted")
    fields = _fields(message.DESCRIPTOR)
    for key, value in document.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        try:
            target = getattr(message, field.name)
            if hasattr(target, "append"):
                _fill_list(target, field, value, levels, mended)
            elif field.message_type is not None:
                target.SetInParent()
                _fill(target, _object(value), levels - 1, mended)
            else:
                setattr(message, field.name, _scalar(field, value, mended))
        except _BadValueError as error:
            error.path.append(f".{key}")
            raise


def _fill_list(
    target: Any, field: FieldDescriptor, value: Any, levels: int, mended: Counter[str]
) -> None:
    if not isinstance(value, list):
        raise _BadValueError(f"expected an array; got {_shown(value)}")
    for index, each in enumerate(value):
        try:
            if field.message_type is not None:
                _fill(target.add(), _object(each), levels - 1, mended)
            else:
                target.append(_scalar(field, each, mended))
        except _BadValueError as error:
            error.path.append(f"[{index}]")
            raise


def _object(value: Any) -> dict[str, Any]:
    if value is None:  # list element: an empty message
        return {}
    if not isinstance(value, dict):
        raise _BadValueError(f"expected an object; got {_shown(value)}")
    return value


def _scalar(field: FieldDescriptor, value: Any, mended: Counter[str]) -> Any:
    if field.cpp_type in _INTEGERS:
        return _integer(field, value)
    if field.type == field.TYPE_STRING:
        return _text(value, mended)
    if field.type == field.TYPE_BYTES:
        return _hex(value) if field.name in _HEX_FIELDS else _base64(value)
    if field.type == field.TYPE_BOOL:
        if isinstance(value, bool):
            return value
        raise _BadValueError(f"expected true or false; got {_shown(value)}")
    return _double(value)


def _integer(field: FieldDescriptor, value: Any) -> int:
    if isinstance(value, str) and field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        if known is not None:
            return int(known.number)
    low, high = _INTEGERS[field.cpp_type]
    number = int(value) if _is_whole(value) else None
    if number is None or not low <= number <= high:
        raise _BadValueError(f"expected an integer from {low} to {high}; got {_shown(value)}")
    return number


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMERAL.fullmatch(value) is not None
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _double(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)  # including "NaN", "Infinity" and "-Infinity"
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    raise _BadValueError(f"expected a number; got {_shown(value)}")


def _text(value: Any, mended: Counter[str]) -> str:
    if not isinstance(value, str):
        raise _BadValueError(f"expected a string; got {_shown(value)}")
    text, surrogates = _SURROGATES.subn("\ufffd", value)
    mended[BAD_TEXT] += bool(surrogates)
    return text


def _hex(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return binascii.unhexlify(value)
        except ValueError:
            pass
    raise _BadValueError(f"expected hexadecimal digits; got {_shown(value)}")


def _base64(value: Any) -> bytes:
    if isinstance(value, str):
        padded = value.replace("-", "+").replace("_", "/")
        padded += "=" * (-len(padded) % 4)
        try:
            return base64.b64decode(padded, validate=True)
        except ValueError:
            pass
    raise _BadValueError(f"expected bytes in base64; got {_shown(value)}")


def _shown(value: Any) -> str:
    return repr(value)[:80]
