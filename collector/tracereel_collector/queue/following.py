"""Reading along: what was appended, in the order it was acknowledged, on a connection of its own.

Body ids and sequence numbers are given in the same transaction, one writer at a time, so bodies with
a higher id were acknowledged later. The exception are records that come back from the quarantine:
they have a new id and their old number, and were read along when they first came.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.queue.database import checksum, connect

MAX_LOOK_BACK_BYTES = 64 * 1024 * 1024
"""How far back a position is looked for; delivered bodies are not kept beyond this either."""
MAX_HEADS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the queue: everything up to a body, and within it up to a number, is behind it."""

    body_id: int
    number: int
    newest_body_id: int
    """The last body there was when somebody looked."""
    missed_before: int | None = None
    """Set where the queue may no longer hold all that came after the number asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known of a body without reading it."""

    id: int
    tenant: str
    first_sequence_number: int
    records: int
    size: int


class QueueFollower:
    """Reads bodies behind a position; every method may be called from any thread."""

    def __init__(self, path: Path, *, kinds: Iterable[Kind]) -> None:
        self._connection = connect(path)
        self._lock = threading.Lock()
        self._kinds = tuple(kinds)
        self._any_kind = ", ".join("?" * len(self._kinds))

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    def now(self) -> Position:
        """Behind everything that is acknowledged."""
        with self._lock:
            newest, following = self._connection.execute(
                "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name='bodies'), 0),"
                " (SELECT value FROM meta WHERE key='next_sequence_number')"
            ).fetchone()
        return Position(body_id=newest, number=following - 1, newest_body_id=newest)

    def after(self, number: int) -> Position:
        """Behind a number somebody has seen, as far as the queue still holds what followed."""
        now = self.now()
        if number >= now.number:
            # A number nobody was given yet is of another queue: what followed it is not known here.
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

    def heads_after(self, body_id: int, *, tenant: str | None = None) -> list[Head]:
        """What came after a body, of one tenant or all, oldest first; at most `MAX_HEADS`."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT id, tenant, first_sequence_number, records, bytes FROM bodies"
                f" WHERE id > ? AND kind IN ({self._any_kind}) AND tenant = coalesce(?, tenant)"
                " ORDER BY id LIMIT ?",
                (body_id, *self._kinds, tenant, MAX_HEADS),
            ).fetchall()
        return [
            Head(
                id=row[0], tenant=row[1], first_sequence_number=row[2], records=row[3], size=row[4]
            )
            for row in rows
        ]

    def body(self, body_id: int) -> QueuedBody | None:
        """One body; None when it is gone by now, or damaged."""
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
        """Id, first number, records and bytes, the newest first."""
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
