"""Checks events line by line, as strictly as the engine that decodes them later.

A line is decoded once, by msgspec without a type: that is at least as strict as ClickHouse's JSON
reader (number overflow, invalid UTF-8 and surrogates, depth). The result is then converted to the
event's type, which is cheaper than decoding the text again. Only a line that fails is decoded again,
for its error message. Lines that pass are stored unchanged.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracereel._redact.values import encode
from tracereel.events import RESERVED_FIELDS, UnknownEventTypeError
from tracereel.semconv import CONTENT_BYTES
from tracereel_collector.auth.claims import EVENT_FIELD, refusal
from tracereel_collector.ingest.decoders import EventDecoders
from tracereel_collector.ingest.explain import explain_field, explain_line, json_name
from tracereel_collector.ingest.objects import MAX_OBJECTS, has_more_json
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.model import SESSION_FLAG, EmitterRun, Owner

MIN_YEAR, MAX_YEAR = 1970, 2261
"""Years that fit 64 bits of nanoseconds."""
MAX_TIMESTAMP = len("2026-01-23T10:00:00.123456789+00:00")
MAX_DEPTH = 200
REJECTIONS_KEPT = 1_000
"""Reasons kept per body; further refusals are only counted."""
OURS = RESERVED_FIELDS | {SESSION_FLAG}
"""Fields that only the collector may set."""
TENANT_CLAIM = "tenant_claim"
_TOO_DEEP = f"nested too deep; at most {MAX_DEPTH} levels are accepted"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Rejected record: index, id and reason."""

    index: int
    event_id: str | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the rejection as a field of the response."""
        return {"index": self.index, "event_id": self.event_id, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Accepted lines and rejections of a body."""

    lines: list[bytes]
    """Accepted lines; a body that is accepted unchanged may be one item."""
    records: int
    runs: tuple[EmitterRun, ...]
    owners: tuple[Owner, ...]
    """Distinct pairs of session and claimed user in the accepted lines."""
    rejected: list[Rejection] = field(default_factory=list)
    """First rejections, with reasons."""
    reasons: Counter[str] = field(default_factory=Counter)
    """All rejections by code."""


class _EventRefusedError(Exception):
    """Rejection of a line."""

    def __init__(self, code: str, reason: str, event_id: str | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.event_id = event_id


class EventCheck:
    """Checks lines against the contract; stateless after construction, safe to share."""

    def __init__(
        self,
        *,
        max_event_bytes: int,
        max_objects: int = MAX_OBJECTS,
        redactor: Redactor | None = None,
    ) -> None:
        self._max_objects = max_objects
        self._decoders = EventDecoders()
        self._untyped: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
        self._max_event_bytes = max_event_bytes
        self._redactor = redactor

    def check(self, lines: list[bytes], *, tenant: str) -> Checked:
        """Split the lines of a tenant's body into accepted and rejected ones."""
        kept: list[bytes] = []
        rejected: list[Rejection] = []
        reasons: Counter[str] = Counter()
        numbers: list[tuple[str | None, int | None]] = []
        owners: dict[Owner, None] = {}
        for index, line in enumerate(lines):
            event: Any = None
            try:
                event = self._decode(line)
                typed = self._typed(line, event)
                if self._redactor is not None and self._redactor.event(event):
                    line = _encoded(event)
                    typed = self._typed(line, event)
                _check_claim(event, tenant)
            except _EventRefusedError as no:
                reasons[no.code] += 1
                if len(rejected) < REJECTIONS_KEPT:
                    rejected.append(Rejection(index, no.event_id or _id_of(event), no.reason))
                continue
            kept.append(_mended(line, event))
            numbers.append((typed.emitter_id, typed.emitter_seq))
            if typed.session_id is not None and typed.user_id is not None:
                owners[typed.session_id, typed.user_id] = None
        return Checked(
            lines=kept,
            records=len(kept),
            runs=emitter_runs(numbers),
            owners=tuple(owners),
            rejected=rejected,
            reasons=reasons,
        )

    def _decode(self, line: bytes) -> Any:
        if len(line) > self._max_event_bytes:
            raise _EventRefusedError(
                "too_large",
                f"the event has {len(line)} bytes; at most {self._max_event_bytes} are accepted",
            )
        most = self._max_objects
        if has_more_json(line, most):
            raise _EventRefusedError(
                "too_large", f"the event holds more than {most} values; send it in parts"
            )
        try:
            event = self._untyped.decode(line)
        except RecursionError as error:
            raise _EventRefusedError("too_deep", _TOO_DEEP) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _EventRefusedError(
                "bad_json", *explain_line(line, f"not valid JSON: {error}")
            ) from error
        if _may_nest(line) and is_deeper(event, MAX_DEPTH):
            raise _EventRefusedError("too_deep", _TOO_DEEP)
        return event

    def _typed(self, line: bytes, event: Any) -> Any:
        if not isinstance(event, dict):
            raise _EventRefusedError("bad_json", f"expected a JSON object, got {json_name(event)}")
        if "event_type" not in event:
            raise _EventRefusedError(
                "bad_field", "event_type: missing; expected the type of the event"
            )
        try:
            decoder = self._decoders.of(event["event_type"])
        except UnknownEventTypeError as error:
            raise _EventRefusedError("unknown_type", str(error)) from error
        try:
            typed = msgspec.convert(event, decoder.type)
        except msgspec.ValidationError:
            typed = _explained(decoder, line, event)
        if len(event["timestamp"]) > MAX_TIMESTAMP:
            raise _EventRefusedError(
                "bad_timestamp",
                f"timestamp: {event['timestamp'][:60]!r} is too long; expected at most nanoseconds",
            )
        if not MIN_YEAR <= typed.timestamp.year <= MAX_YEAR:
            raise _EventRefusedError(
                "bad_timestamp",
                f"timestamp: {event['timestamp']!r} is out of range;"
                f" expected a year from {MIN_YEAR} to {MAX_YEAR}",
            )
        return typed


def _may_nest(line: bytes) -> bool:
    """Return False only if nothing is nested; a cheap test with false positives."""
    return b"[" in line or line.find(b"{", 1) >= 0


def _check_claim(event: dict[str, Any], tenant: str) -> None:
    claimed = event.get(EVENT_FIELD)
    if claimed not in (None, "", tenant):
        raise _EventRefusedError(TENANT_CLAIM, refusal(EVENT_FIELD, claimed, tenant))


def _mended(line: bytes, event: dict[str, Any]) -> bytes:
    """Return the line without repeated keys, line feeds and fields reserved for the collector."""
    if not OURS.isdisjoint(event):
        return _encoded({key: value for key, value in event.items() if key not in OURS})
    # Cheap test: as many keys in the text as were decoded. White space may hide one from the count.
    keys = _count_keys(event) if _may_nest(line) else len(event)
    has_space = b"\n" in line or b"\r" in line or b"\t" in line or b" :" in line
    if line.count(b'":') == keys and not has_space:
        return line
    if _repeats_keys(line):
        # Of repeated keys the engine uses the first, msgspec the last.
        return _encoded(event)
    return b" ".join(line.splitlines())


def _encoded(event: dict[str, Any]) -> bytes:
    """Return a changed event as a line; the length of its large content is that of the new one."""
    if CONTENT_BYTES not in event:
        return msgspec.json.encode(event)
    return encode({key: value for key, value in event.items() if key != CONTENT_BYTES})


def _explained(decoder: "msgspec.json.Decoder[Any]", line: bytes, event: dict[str, Any]) -> Any:
    """Decode a line as its type to get an error message with the field."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise _EventRefusedError("bad_field", explain_field(str(error), event)) from error


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(
            _count_keys(each) for each in value.values() if isinstance(each, dict | list)
        )
    return sum(_count_keys(each) for each in value if isinstance(each, dict | list))


def _repeats_keys(line: bytes) -> bool:
    repeated = False

    def note(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len(pairs) != len({key for key, _ in pairs})

    json.loads(line, object_pairs_hook=note)
    return repeated


def _id_of(event: Any) -> str | None:
    name = event.get("event_id") if isinstance(event, dict) else None
    return name if isinstance(name, str) else None


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested deeper; iterative, for untrusted input."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for each in layer
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True


def emitter_runs(numbers: Iterable[tuple[str | None, int | None]]) -> tuple[EmitterRun, ...]:
    """Group records, by emitter and number, into runs of consecutive numbers."""
    runs: list[EmitterRun] = []
    emitter: str | None = None
    first = count = 0
    for emitter_id, number in numbers:
        name = emitter_id if number is not None else None
        if count and name == emitter and (name is None or number == first + count):
            count += 1
            continue
        if count:
            runs.append(EmitterRun(emitter, first, count))
        emitter, first, count = name, number or 0, 1
    if count:
        runs.append(EmitterRun(emitter, first, count))
    return tuple(runs)
