"""Fast check of bodies in the format of the SDK: all lines at once.

A body that decodes and encodes back to the same bytes has no repeated keys, one event per line and no
white space. Its events are then validated in one call, against types generated from the schema of the
event models. This module rejects nothing: other bodies are left to `check`, which explains rejections.
"""

import re
from functools import partial
from typing import Any, Union

import msgspec

from tracereel_collector.ingest.check import (
    MAX_DEPTH,
    MAX_TIMESTAMP,
    MAX_YEAR,
    MIN_YEAR,
    OURS,
    Checked,
    emitter_runs,
    is_deeper,
)
from tracereel_collector.ingest.decoders import event_definitions, type_of
from tracereel_collector.ingest.events import MAX_RECORDS
from tracereel_collector.ingest.objects import has_more_json
from tracereel_collector.model import EmitterRun, Owner

MAX_AT_ONCE = 250_000
"""Most JSON values: here all are in memory together, in `check` only those of one event."""


class QuickCheck:
    """Checks whole bodies; stateless after construction."""

    def __init__(self, *, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._read: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
        self._write = msgspec.json.Encoder()
        self._patterns: dict[str, re.Pattern[str]] = {}
        # Wrapped in a struct, because msgspec caches conversions only of structs.
        self._body = msgspec.defstruct("Body", [("events", list[self._any_event()])])  # type: ignore[misc]

    def _any_event(self) -> Any:
        """Build a union of the event types, tagged by `event_type`.

        Patterns are left out: matching them against all events at once is several times cheaper.
        Fields that only the collector may set get a type that no value has.
        """
        structs = []
        for name, definition in event_definitions():
            event_type = definition["properties"]["event_type"].get("const")
            if event_type is None:
                continue  # custom types are left to `check`: a tagged union needs exact names
            required = set(definition["required"])
            fields: list[Any] = [(each, msgspec.UnsetType, msgspec.UNSET) for each in sorted(OURS)]
            for field, schema in definition["properties"].items():
                if field == "event_type":
                    continue
                kind = type_of(schema, without_pattern=partial(self._keep, field))
                fields.append((field, kind) if field in required else (field, kind, None))
            structs.append(
                msgspec.defstruct(
                    name, fields, kw_only=True, gc=False, tag_field="event_type", tag=event_type
                )
            )
        return Union[tuple(structs)]  # noqa: UP007 - built at run time

    def _keep(self, field: str, pattern: str) -> None:
        whole = re.compile(f"(?:(?:{pattern.removeprefix('^').removesuffix('$')})\n)*")
        if self._patterns.setdefault(field, whole) != whole:
            raise TypeError(f"{field}: two kinds of events have two patterns for it")

    def check(self, body: bytes) -> Checked | None:
        """Return the accepted body, or None to leave it to `check`."""
        if len(body) > MAX_RECORDS and body.count(b"\n") >= MAX_RECORDS:
            return None
        if self._may_hold_too_large(body) or has_more_json(body, MAX_AT_ONCE):
            return None
        try:
            events = self._read.decode_lines(body)
            if not events or not _is_same(body, self._write.encode_lines(events)):
                return None
            typed = msgspec.convert({"events": events}, self._body).events  # type: ignore[attr-defined]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # a ValidationError is a DecodeError
        if not (self._is_in_form(events) and _are_times_in_range(events, typed)):
            return None
        if (b"[" in body or body.count(b"{") > len(events)) and is_deeper(events, MAX_DEPTH + 1):
            return None
        return Checked(
            lines=[body.removesuffix(b"\n")],
            records=len(events),
            runs=_runs_of(typed),
            owners=_owners_of(typed),
        )

    def _may_hold_too_large(self, body: bytes) -> bool:
        limit = self._max_event_bytes
        return len(body) > limit and max(map(len, body.split(b"\n"))) > limit

    def _is_in_form(self, events: list[dict[str, Any]]) -> bool:
        """Return whether all values of fields with a pattern match it."""
        for field, pattern in self._patterns.items():
            values = {event.get(field) for event in events}
            values.discard(None)
            text = "".join([f"{value}\n" for value in values])
            if not pattern.fullmatch(text) or text.count("\n") != len(values):
                return False
        return True


def _is_same(body: bytes, written: bytes) -> bool:
    """Compare; the last line of the body may lack its line feed."""
    return body == written or (len(body) == len(written) - 1 and written.startswith(body))


def _are_times_in_range(events: list[dict[str, Any]], typed: list[Any]) -> bool:
    years = {event.timestamp.year for event in typed}
    return (
        min(years) >= MIN_YEAR
        and max(years) <= MAX_YEAR
        and max([len(event["timestamp"]) for event in events]) <= MAX_TIMESTAMP
    )


def _runs_of(typed: list[Any]) -> tuple[EmitterRun, ...]:
    emitters = {event.emitter_id for event in typed}
    numbers = [event.emitter_seq for event in typed]
    first = numbers[0]
    follow_on = first is not None and numbers == list(range(first, first + len(numbers)))
    if len(emitters) == 1 and follow_on:
        return (EmitterRun(emitters.pop(), first, len(numbers)),)
    return emitter_runs((event.emitter_id, event.emitter_seq) for event in typed)


def _owners_of(typed: list[Any]) -> tuple[Owner, ...]:
    found = dict.fromkeys([(event.session_id, event.user_id) for event in typed])
    return tuple([pair for pair in found if None not in pair])
