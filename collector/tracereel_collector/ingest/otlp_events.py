"""Log records that are tracereel events: detected by name, converted to JSON lines."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from tracereel.events import CUSTOM_PREFIX, EVENT_TYPES
from tracereel_collector.ingest.otlp_mend import MAX_UNIX_NANO
from tracereel_collector.ingest.otlp_values import as_plain

NAME_ATTRIBUTE = "event.name"
"""Attribute with the event name, from before log records had a field for it."""
_PREFIXES = tuple(
    sorted({f"{name.partition('.')[0]}.".encode() for name in (*EVENT_TYPES, CUSTOM_PREFIX)})
)
_SECOND = 1_000_000_000


def may_hold_events(data: bytes) -> bool:
    """Return False only if a body holds no events; a cheap test with false positives."""
    return any(prefix in data for prefix in _PREFIXES)


def event_type_of(record: Any) -> str | None:
    """Return the event type of a log record; None if it is not an event."""
    name = record.event_name
    if not name:
        name = next(
            (each.value.string_value for each in record.attributes if each.key == NAME_ATTRIBUTE),
            "",
        )
    return name if name in EVENT_TYPES or name.startswith(CUSTOM_PREFIX) else None


def event_line(record: Any, event_type: str, *, service: str) -> bytes:
    """Convert a log record to an event as a JSON line.

    Fields come from the attributes and, with precedence, from the body: a map or a JSON object as text.
    Missing time, trace, span and service come from the record. The line depends only on the record,
    so that a retry is recognised as a duplicate.
    """
    fields: dict[str, Any] = {
        each.key: as_plain(each.value) for each in record.attributes if each.key != NAME_ATTRIBUTE
    }
    fields |= _body_fields(record.body)
    fields["event_type"] = event_type
    if service:
        fields.setdefault("service", service)
    if len(record.trace_id) == 16 and any(record.trace_id):
        fields.setdefault("otel_trace_id", record.trace_id.hex())
        fields.setdefault("trace_id", record.trace_id.hex())
    if len(record.span_id) == 8 and any(record.span_id):
        fields.setdefault("span_id", record.span_id.hex())
    nanoseconds = record.time_unix_nano or record.observed_time_unix_nano
    if 0 < nanoseconds <= MAX_UNIX_NANO:
        fields.setdefault("timestamp", _moment(nanoseconds))
    if "event_id" not in fields:
        digest = hashlib.blake2b(record.SerializeToString(deterministic=True), digest_size=16)
        fields["event_id"] = f"evt_{digest.hexdigest()}"
    return msgspec.json.encode(fields)


def _body_fields(body: Any) -> dict[str, Any]:
    plain = as_plain(body)
    if isinstance(plain, str) and plain[:1] == "{":
        # Some collectors convert a map to text.
        try:
            plain = json.loads(plain)
        except (ValueError, RecursionError):
            return {}
    return plain if isinstance(plain, dict) else {}


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
