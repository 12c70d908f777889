"""Finding the records a store refuses: halve the batch until what is left is one record, or fine."""

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
"""Records that fail by themselves while nothing passes: of so many more, it is not the records."""


class NothingPassesError(Exception):
    """No part of a batch is taken, however small: the store is in trouble, not the data."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def insert_what_can_be(
    bodies: Sequence[QueuedBody], *, token: str, insert: Insert
) -> list[Quarantined]:
    """Insert a batch that failed for its data or its size, part by part; returns what was left out.

    `insert` must not give up on a store that is away. The parts and their tokens depend on nothing
    but the batch, so doing it again after a crash stores nothing twice.

    Raises:
        NothingPassesError: many are refused one by one, for a reason that need not be the data, and
            nothing is stored.
    """
    refused: list[Quarantined] = []
    passed = are_few(bodies)
    # Parts still to try; the last one first, so that order is kept. The whole has just failed.
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
    """So few that the failure of all of them says nothing of the store."""
    return sum(body.records for body in bodies) <= FEW


def _halves(part: list[QueuedBody]) -> list[list[QueuedBody]]:
    """Two halves of several bodies, or of one body's records; nothing for a single record."""
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
