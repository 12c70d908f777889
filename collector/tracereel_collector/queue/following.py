"""Reader that follows appended bodies in the order of their acknowledgement.

Body ids and sequence numbers are assigned in the same transaction by one writer at a time, so a body
with a higher id was acknowledged later. Records retried from quarantine are the exception: they get a
new id, keep their number, and were already followed when they first arrived.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.queue.database import checksum, connect

MAX_LOOK_BACK_BYTES = 64 * 1024 * 1024
"""Bytes searched backwards for a position; delivered bodies are kept no longer than this."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
        self._connection = connect(path)
        self._lock = threading.Lock()
        self._kinds = tuple(kinds)
        self._any_kind = ", ".join("?" * len(self._kinds))

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._connection.close()

    def now(self) -> Position:
        """Return the position after everything acknowledged."""
        with self._lock:
            newest, following = self._connection.execute(
                "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name='bodies'), 0),"
                " (SELECT value FROM meta WHERE key='next_sequence_number')"
            ).fetchone()
        return Position(body_id=newest, number=following - 1, newest_body_id=newest)

    def after(self, number: int) -> Position:
        """Return the position after a sequence number, as far back as the queue still reaches."""
        now = self.now()
        if number >= now.number:
            # A number not assigned yet is from another queue, so its successors are unknown here.
            ahead = number > now.number
            return Position(
                body_id=now.body_id,
                number=now.number,
                newest_body_id=now.body_id,
                missed_before=now.number + 1 if ahead else None,
            )
        first, oldest, looked_at = now.body_id + 1, now.number + 1, 0
        for body_id, begins, records, size in self._backwards(now.body_id):
            looked_at += size
            if looked_at > MAX_LOOK_BACK_BYTES:
                break
            oldest = min(oldest, begins)
            if begins + records - 1 > number:
                first = body_id
        missed = oldest > number + 1
        return Position(
            body_id=first - 1,
            number=number,
            newest_body_id=now.body_id,
            missed_before=oldest if missed else None,
        )

    def heads_after(self, body_id: int, *, tenant: str | None = None) -> list[BodyHead]:
        """Return bodies after an id, of one tenant or all, oldest first; at most `MAX_HEADS`."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, tenant, first_sequence_number, records, bytes FROM bodies"
                f" WHERE id > ? AND kind IN ({self._any_kind}) AND tenant = coalesce(?, tenant)"
                " ORDER BY id LIMIT ?",
                (body_id, *self._kinds, tenant, MAX_HEADS),
            ).fetchall()
        return [
            BodyHead(
                id=row[0], tenant=row[1], first_sequence_number=row[2], records=row[3], size=row[4]
            )
            for row in rows
        ]

    def body(self, body_id: int) -> QueuedBody | None:
        """Return a body; None if it is deleted or damaged."""
        with self._lock:
            row = self._connection.execute(
                "SELECT id, kind, tenant, first_sequence_number, records, received_unix_nano, data,"
                " checksum FROM bodies WHERE id=?",
                (body_id,),
            ).fetchone()
        if row is None or checksum(row[6]) != row[7]:
            return None
        return QueuedBody(
            id=row[0],
            kind=Kind(row[1]),
            tenant=row[2],
            first_sequence_number=row[3],
            records=row[4],
            received_unix_nano=row[5],
            data=row[6],
        )

    def _backwards(self, newest: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield id, first number, records and bytes of each body, newest first."""
        before = newest + 1
        while True:
            with self._lock:
                rows = self._connection.execute(
                    "SELECT id, first_sequence_number, records, bytes FROM bodies"
                    f" WHERE id < ? AND kind IN ({self._any_kind}) ORDER BY id DESC LIMIT 500",
                    (before, *self._kinds),
                ).fetchall()
            if not rows:
                return
            yield from rows
            before = rows[-1][0]
