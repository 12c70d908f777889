"""Finding the records a store refuses: halve the batch until what is left is one record, or fine."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracereel_collector.errors import PermanentError
from tracereel_collector.model import Kind, Quarantined, QueuedBody

Insert = Callable[[Sequence[QueuedBody], str], None]


def insert_what_can_be(
    bodies: Sequence[QueuedBody], *, token: str, insert: Insert
) -> list[Quarantined]:
    """Insert a batch that failed for its data, part by part; returns what had to be left out.

    The parts and their tokens depend on nothing but the batch, so doing it again after a crash
    stores nothing twice.
    """
    refused: list[Quarantined] = []
    # Parts still to try; the last one first, so that order is kept.
    waiting = [list(bodies)]
    while waiting:
        part = waiting.pop()
        try:
            insert(part, f"{token}/{_name(part)}")
        except PermanentError as error:
            smaller = _halves(part)
            if smaller:
                waiting.extend(reversed(smaller))
            else:
                refused.append(_quarantined(part[0], error))
    return refused


def _halves(part: list[QueuedBody]) -> list[list[QueuedBody]]:
    """Two halves of several bodies, or of one body's lines; nothing for a single record."""
    if len(part) > 1:
        middle = len(part) // 2
        return [part[:middle], part[middle:]]
    body = part[0]
    if body.kind is not Kind.EVENTS or body.records < 2:
        return []
    lines = body.data.split(b"\n")
    middle = len(lines) // 2
    return [
        [replace(body, records=middle, data=b"\n".join(lines[:middle]))],
        [
            replace(
                body,
                first_sequence_number=body.first_sequence_number + middle,
                records=len(lines) - middle,
                data=b"\n".join(lines[middle:]),
            )
        ],
    ]


def _name(part: list[QueuedBody]) -> str:
    first, last = part[0], part[-1]
    return f"{first.first_sequence_number}-{last.first_sequence_number + last.records - 1}"


def _quarantined(body: QueuedBody, error: PermanentError) -> Quarantined:
    return Quarantined(
        kind=body.kind,
        tenant=body.tenant,
        sequence_number=body.first_sequence_number,
        records=body.records,
        data=body.data,
        reason=error.message,
    )
