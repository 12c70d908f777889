"""Framing of event bodies: one object, an array, or one object per line."""

import msgspec

from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.ingest.objects import MAX_OBJECTS, has_more_json, too_many_objects

_SHAPES = "expected one event as a JSON object, a JSON array of events, or one event per line"
MAX_RECORDS = 100_000
"""Most events of one body: even short ones take memory."""
NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})


def split_events(
    body: bytes, *, content_type: str, max_objects: int = MAX_OBJECTS
) -> tuple[list[bytes], bool]:
    """Split a body into lines; also return whether it is a single event.

    A JSON string cannot contain a raw line feed. A body whose first line is not complete JSON is
    therefore one object printed over several lines, not NDJSON.

    Raises:
        BadRequestError: the body is empty or not an object, an array or NDJSON.
        TooLargeError: it has too many events.
    """
    stripped = body.strip()
    if not stripped:
        raise BadRequestError("the body is empty", hint=_SHAPES)
    if content_type in NDJSON:
        return _split_lines(stripped), False
    if stripped[:1] == b"[":
        if has_more_json(stripped, max_objects):
            raise too_many_objects(max_objects)
        elements = _split_array(stripped)
        if len(elements) > MAX_RECORDS:
            raise _too_many()
        return elements, False
    if b"\n" not in stripped or not _is_whole(stripped.split(b"\n", 1)[0]):
        return [stripped], True
    return _split_lines(stripped), False


def _too_many() -> TooLargeError:
    return TooLargeError(
        f"the body holds more than {MAX_RECORDS} events", hint="send them in several requests"
    )


def _split_lines(body: bytes) -> list[bytes]:
    # One more than allowed, to detect an excess without splitting all.
    lines = body.split(b"\n", MAX_RECORDS)
    if len(lines) > MAX_RECORDS:
        raise _too_many()
    return [line for line in (line.strip() for line in lines) if line]


def _split_array(body: bytes) -> list[bytes]:
    try:
        # Raw elements keep their bytes and are not decoded.
        return [
            bytes(element).strip() for element in msgspec.json.decode(body, type=list[msgspec.Raw])
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(
            f"the body is not a valid JSON array: {error}", hint=_SHAPES
        ) from error


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)  # parsed without building objects
    except (ValueError, RecursionError):
        return False
    return True
