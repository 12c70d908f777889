"""Counts the objects of a body before it is decoded.

A value of three bytes takes a hundred bytes in memory, so limits on bytes do not limit memory.
"""

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor

from tracereel_collector.errors import BadRequestError, TooLargeError

MAX_OBJECTS = 1_000_000
_WINDOW = 64 * 1024
_PER_NUMBER = 16
"""Packed numbers that take as much memory as a message."""
_FIELDS_PER_OBJECT = 5
"""Far above the average number of fields of a message; stops the scan of odd input."""
_MAX_DEPTH = 200
"""Deepest nesting, twice the limit of protobuf's parser."""
_NUMBERS, _TEXT = "numbers", "text"
_Fields = dict[int, Any]
"""Repeated and nested fields by tag: the fields of a message, or `_NUMBERS` or `_TEXT`."""


def too_many_objects(most: int) -> TooLargeError:
    """Return the error for a body over the limit."""
    return TooLargeError(
        f"the body holds more than {most} objects (JSON values or protobuf messages;"
        " TRACEREEL_MAX_BODY_OBJECTS)",
        hint="send it in smaller parts, or raise the limit",
    )


def count_json(data: bytes, most: int) -> int:
    """Return an upper bound of the values in a JSON text; above `most`, exclude strings."""
    count = _marks(data)
    return count if count <= most else _marks_outside_strings(data)


def has_more_json(data: bytes, most: int) -> bool:
    """Return whether a JSON text has more values than allowed."""
    return len(data) > most and count_json(data, most) > most


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def _marks_outside_strings(data: bytes) -> int:
    count = begin = 0
    inside = False
    while begin < len(data):
        window = data[begin : begin + _WINDOW]
        backslashes = len(window) - len(window.rstrip(b"\\"))
        if backslashes % 2 and len(window) > 1:
            window = window[:-1]  # its last backslash escapes the next byte
        begin += len(window)
        parts = window.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        count += _marks(b"".join(parts[inside::2]))
        inside ^= len(parts) % 2 == 0
    return count


def count_protobuf(data: bytes, message: Descriptor, most: int) -> int:
    """Return an upper bound of the messages in a body; stops soon after `most`."""
    if len(data) // 2 <= most:  # a message takes at least two bytes
        return len(data) // 2
    try:
        return _walk(data, _fields_of(message), most)
    except (IndexError, _MalformedError) as error:
        raise BadRequestError(
            f"the body is not an OTLP {message.name} in protobuf, or nested too deep"
        ) from error


class _MalformedError(Exception):
    """Invalid length or tag."""


def _walk(data: bytes, fields: _Fields, most: int) -> int:
    """Count messages in the order in which a parser creates them."""
    count = position = groups = 0
    end = len(data)
    outer: list[tuple[int, _Fields]] = []
    for _ in range(_FIELDS_PER_OBJECT * most):
        if position >= end:
            if position > end:
                raise _MalformedError
            if not outer or count > most:
                return count
            end, fields = outer.pop()
            continue
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = _rest_of_varint(data, tag, position)
        wire = tag & 7
        if wire == 2:
            length = data[position]
            position += 1
            if length > 127:
                length, position = _rest_of_varint(data, length, position)
            known = None if groups else fields.get(tag)
            if known is None:
                position += length
                continue
            count += 1
            if known is _NUMBERS:
                count += length // _PER_NUMBER
                position += length
            elif known is _TEXT:
                position += length
            else:
                if position + length > end or len(outer) > _MAX_DEPTH:
                    raise _MalformedError
                outer.append((end, fields))
                end, fields = position + length, known
            if count > most:
                return count
        elif wire == 0:
            count += fields.get(tag | 2) is _NUMBERS
            while data[position] > 127:
                position += 1
            position += 1
        elif wire == 1:
            position += 8
        elif wire == 5:
            position += 4
        elif wire in (3, 4):
            groups += 1 if wire == 3 else -1
        else:
            raise _MalformedError
    return most + 1


def _rest_of_varint(data: bytes, first: int, position: int) -> tuple[int, int]:
    value, shift = first & 127, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise _MalformedError


@cache
def _fields_of(message: Descriptor) -> _Fields:
    found: _Fields = {}
    _describe(message, found, {message.full_name: found})
    return found


def _describe(message: Descriptor, into: _Fields, known: dict[str, _Fields]) -> None:
    for field in message.fields:
        tag = field.number << 3 | 2
        inner = field.message_type
        if inner is None:
            if field.is_repeated:
                is_text = field.type in (field.TYPE_STRING, field.TYPE_BYTES)
                into[tag] = _TEXT if is_text else _NUMBERS
            continue
        if inner.full_name not in known:
            known[inner.full_name] = {}
            _describe(inner, known[inner.full_name], known)
        into[tag] = known[inner.full_name]
