"""Isolation of records that the store refuses, by halving the batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from tracereel_collector.errors import (
    CollectorError,
    PermanentError,
    TooMuchAtOnceError,
    UnknownRefusalError,
)
from tracereel_collector.model import Quarantined, QueuedBody
from tracereel_collector.queue.deleted import OTLP, otlp_scopes

Insert = Callable[[Sequence[QueuedBody], str], None]
NotStored = Callable[[Sequence[QueuedBody]], list[QueuedBody]]
FEW = 10
"""Refused records, with none stored, from which the store is at fault."""
_LINES = frozenset({"events", "heartbeats", "scores"})


class NothingPassesError(Exception):
    """Every part of a batch is refused: the store is at fault, not the data."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def insert_in_parts(
    bodies: Sequence[QueuedBody], *, token: str, insert: Insert, not_stored: NotStored = list
) -> list[Quarantined]:
    """Insert a failed batch in parts; return the refused records.

    `insert` must retry while the store is unavailable. Parts and tokens depend only on the batch, so
    repeating this after a crash stores no record twice. `not_stored` leaves out the bodies that an
    attempt without an answer has stored before the refusal.

    Raises:
        NothingPassesError: `FEW` records were refused for an unknown reason and none was stored.
    """
    refused: list[Quarantined] = []
    passed = are_few(bodies)
    # Stack of parts to try, in reverse, so that order is kept. The whole batch has just failed.
    left = not_stored(bodies)
    waiting = (_halves(left) or [left])[::-1] if left else []
    while waiting:
        part = waiting.pop()
        try:
            insert(part, f"{token}/{_name(part)}")
            passed = True
        except (PermanentError, TooMuchAtOnceError, UnknownRefusalError) as error:
            part = not_stored(part)
            if not part:
                continue
            if smaller := _halves(part):
                waiting.extend(reversed(smaller))
                continue
            refused.append(_quarantined(part[0], error))
            passed = passed or not isinstance(error, UnknownRefusalError)
            if not passed and len(refused) == FEW:
                raise NothingPassesError(error.message) from error
    return refused


def are_few(bodies: Sequence[QueuedBody]) -> bool:
    """Return whether the records are too few to conclude that the store is at fault."""
    return sum(body.records for body in bodies) <= FEW


def _halves(part: list[QueuedBody]) -> list[list[QueuedBody]]:
    """Split the bodies, or one body's records, in two; empty for a single record."""
    if len(part) > 1:
        middle = len(part) // 2
        return [part[:middle], part[middle:]]
    return [[each] for each in _halves_of_body(part[0])]


def _halves_of_body(body: QueuedBody) -> list[QueuedBody]:
    """Split a body into two with half of the records; empty if impossible."""
    if body.records < 2:
        return []
    if body.kind in OTLP:
        return _halves_of_otlp(body)
    lines = body.data.split(b"\n") if body.kind in _LINES else []
    if len(lines) != body.records:
        return []
    middle = len(lines) // 2
    return _parts(body, b"\n".join(lines[:middle]), b"\n".join(lines[middle:]), middle)


def _halves_of_otlp(body: QueuedBody) -> list[QueuedBody]:
    try:
        request = OTLP[body.kind][0].FromString(body.data)
    except DecodeError:
        return []
    records = [
        (resource, scope, record)
        for resource, scope, of_scope in otlp_scopes(body.kind, request)
        for record in of_scope
    ]
    if len(records) != body.records:
        return []
    middle = len(records) // 2
    first, second = (_request_of(body.kind, part) for part in (records[:middle], records[middle:]))
    return _parts(body, first, second, middle)


def _request_of(kind: str, records: list[tuple[Any, Any, Any]]) -> bytes:
    message, name = OTLP[kind]
    request = message()
    of_resource = of_scope = into_resource = into_scope = None
    for resource, scope, record in records:
        if resource is not of_resource:
            into_resource = getattr(request, f"resource_{kind}").add()
            into_resource.resource.CopyFrom(resource.resource)
            into_resource.schema_url = resource.schema_url
            of_resource, of_scope = resource, None
        if scope is not of_scope:
            into_scope = getattr(into_resource, f"scope_{kind}").add()
            into_scope.scope.CopyFrom(scope.scope)
            into_scope.schema_url = scope.schema_url
            of_scope = scope
        getattr(into_scope, name).append(record)
    return bytes(request.SerializeToString())


def _parts(body: QueuedBody, first: bytes, second: bytes, middle: int) -> list[QueuedBody]:
    return [
        replace(body, records=middle, data=first),
        replace(
            body,
            first_sequence_number=body.first_sequence_number + middle,
            records=body.records - middle,
            data=second,
        ),
    ]


def _name(part: list[QueuedBody]) -> str:
    first, last = part[0], part[-1]
    return f"{first.first_sequence_number}-{last.first_sequence_number + last.records - 1}"


def _quarantined(body: QueuedBody, error: CollectorError) -> Quarantined:
    return Quarantined(
        kind=body.kind,
        tenant=body.tenant,
        sequence_number=body.first_sequence_number,
        records=body.records,
        received_unix_nano=body.received_unix_nano,
        data=body.data,
        reason=error.message,
    )
