"""Isolation of records that the store refuses, by halving the batch."""

from collections.abc import Callable, Sequence

from tracereel_collector.deliver.split import halves
from tracereel_collector.errors import (
    CollectorError,
    PermanentError,
    TooMuchAtOnceError,
    UnknownRefusalError,
)
from tracereel_collector.model import Quarantined, QueuedBody

Insert = Callable[[Sequence[QueuedBody], str], None]
FEW = 10
"""Refused records, with none stored, from which the store is at fault."""


class NothingPassesError(Exception):
    """Every part of a batch is refused: the store is at fault, not the data."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def insert_what_can_be(
    bodies: Sequence[QueuedBody], *, token: str, insert: Insert
) -> list[Quarantined]:
    """Insert a failed batch in parts; return the refused records.

    `insert` must retry while the store is unavailable. Parts and tokens depend only on the batch, so
    repeating this after a crash stores no record twice.

    Raises:
        NothingPassesError: `FEW` records were refused for an unknown reason and none was stored.
    """
    refused: list[Quarantined] = []
    passed = are_few(bodies)
    # Stack of parts to try, in reverse, so that order is kept. The whole batch has just failed.
    waiting = _halves(list(bodies))[::-1] or [list(bodies)]
    while waiting:
        part = waiting.pop()
        try:
            insert(part, f"{token}/{_name(part)}")
            passed = True
        except (PermanentError, TooMuchAtOnceError, UnknownRefusalError) as error:
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
    return [[each] for each in halves(part[0])]


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
