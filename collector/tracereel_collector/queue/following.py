"""Reader that follows appended bodies in the order of their acknowledgement.

Body ids and sequence numbers are assigned in the same transaction by one writer at a time, so a body
with a higher id was acknowledged later. Records retried from quarantine are the exception: they get a
new id, keep their number, and were already followed when they first arrived.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.queue import bodies
from tracereel_collector.queue.database import SharedReader

MAX_LOOK_BACK_BYTES = 64 * 1024 * 1024
"""Bytes searched backwards for a position; delivered bodies are kept no longer than this."""
MAX_LOOK_BACK_BODIES = 100_000
MAX_HEADS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Place in the queue after a body and, within it, after a sequence number."""

    body_id: int
    number: int
    newest_body_id: int
    """Id of the newest body when the position was taken."""
    missed_before: int | None = None
    """First available number, if the queue no longer holds everything after the requested one."""


@dataclass(frozen=True, slots=True)
class BodyHead:
    """Metadata of a body without its data."""

    id: int
    tenant: str
    first_sequence_number: int
    records: int
    size: int


class QueueFollower:
    """Reads bodies after a position; thread-safe."""

    def __init__(self, path: Path, *, kinds: Iterable[Kind]) -> None:
        self._reader = SharedReader(path)
        self.close = self._reader.close
        self._kinds = tuple(kinds)
        self._any_kind = ", ".join("?" * len(self._kinds))

    def now(self) -> Position:
        """Return the position after everything acknowledged."""
        ((newest, following),) = self._reader.rows(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name='bodies'), 0),"
            " (SELECT value FROM meta WHERE key='next_sequence_number')"
        )
        return Position(body_id=newest, number=following - 1, newest_body_id=newest)

    def after(self, number: int) -> Position:
        """Return the position after a sequence number, as far back as the queue still reaches."""
        now = self.now()
        if number == now.number:
            return now
        if number > now.number:
            # A number not assigned yet is from another queue, so its successors are unknown here.
            return replace(now, missed_before=now.number + 1)
        ((first, oldest),) = self._reader.rows(
            "SELECT min(id) FILTER (WHERE first_sequence_number + records - 1 > ?),"
            " min(first_sequence_number) FROM"
            " (SELECT *, sum(bytes) OVER (ORDER BY id DESC) AS looked_at FROM"
            " (SELECT id, first_sequence_number, records, bytes FROM bodies"
            f" WHERE id <= ? AND kind IN ({self._any_kind}) ORDER BY id DESC LIMIT ?))"
            " WHERE looked_at <= ?",
            *(number, now.body_id, *self._kinds, MAX_LOOK_BACK_BODIES, MAX_LOOK_BACK_BYTES),
        )
        first, oldest = first or now.body_id + 1, min(oldest or now.number + 1, now.number + 1)
        missed = oldest if oldest > number + 1 else None
        return replace(now, body_id=first - 1, number=number, missed_before=missed)

    def heads_after(self, body_id: int, *, tenant: str | None = None) -> list[BodyHead]:
        """Return bodies after an id, of one tenant or all, oldest first; at most `MAX_HEADS`."""
        rows = self._reader.rows(
            "SELECT id, tenant, first_sequence_number, records, bytes FROM bodies"
            f" WHERE id > ? AND kind IN ({self._any_kind}) AND tenant = coalesce(?, tenant)"
            " ORDER BY id LIMIT ?",
            *(body_id, *self._kinds, tenant, MAX_HEADS),
        )
        return [BodyHead(*row) for row in rows]

    def body(self, body_id: int) -> QueuedBody | None:
        """Return a body; None if it is deleted or damaged."""
        found = self._reader.rows(f"SELECT {bodies.COLUMNS} FROM bodies WHERE id=?", body_id)
        return next(iter(bodies.readable(found)), None)
