"""Framing of event bodies: one object, an array, or one object per line."""

import msgspec

from tracereel_collector.errors import BadRequestError, TooLargeError

_SHAPES = "expected one event as a JSON object, a JSON array of events, or one event per line"
MAX_RECORDS = 100_000
"""Events in one body: each costs memory of its own, however short."""
MAX_COMMAS = 3_000_000
"""What bounds the elements of an array before it is taken apart."""
NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})


def split_events(body: bytes, *, content_type: str) -> tuple[list[bytes], bool, bool]:
    """The events of a body as lines; whether the body must be put together anew; whether it is one.

    A JSON string cannot hold a raw line feed, so a line feed always separates: an object printed
    over several lines is told from NDJSON by its first line not being whole.

    Raises:
        BadRequestError: the body is empty or has none of the three shapes.
        TooLargeError: it holds too many events.
    """
    stripped = body.strip()
    if stripped[:1] == b"[" and stripped.count(b",") > MAX_COMMAS:
        raise _too_many()
    if not stripped:
        raise BadRequestError("the body is empty", hint=_SHAPES)
    if content_type in NDJSON:
        return (*_split_lines(stripped), False)
    if stripped[:1] == b"[":
        elements = _split_array(stripped)
        if len(elements) > MAX_RECORDS:
            raise _too_many()
        return elements, True, False
    if b"\n" not in stripped or not _is_whole(stripped.split(b"\n", 1)[0]):
        return [stripped], False, True
    return (*_split_lines(stripped), False)


def _too_many() -> TooLargeError:
    return TooLargeError(
        f"the body holds more than {MAX_RECORDS} events", hint="send them in several requests"
    )


def _split_lines(body: bytes) -> tuple[list[bytes], bool]:
    lines = body.split(b"\n", MAX_RECORDS)  # one more than may be, however many there are
    if len(lines) > MAX_RECORDS:
        raise _too_many()
    if b"\r" not in body and b"" not in lines:
        return lines, False
    return [line for line in (line.strip() for line in lines) if line], True


def _split_array(body: bytes) -> list[bytes]:
    try:
        # Elements stay the bytes they are: nothing is decoded that is not kept.
        return [
            bytes(element).strip() for element in msgspec.json.decode(body, type=list[msgspec.Raw])
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(
            f"the body is not a valid JSON array: {error}", hint=_SHAPES
        ) from error


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True
