"""Deletion from the queue: reject late records and remove text from its file."""

import sqlite3
from collections.abc import Callable
from functools import partial

from tracereel_collector.model import Kind, Marks
from tracereel_collector.queue import deleted, quarantine
from tracereel_collector.queue.database import SECURE_DELETE, SharedReader
from tracereel_collector.queue.free_pages import give_back
from tracereel_collector.queue.writer import CommitThread


class QueueErasure:
    """Deletes data that marks match, using the connections of its queue."""

    def __init__(
        self,
        writer: CommitThread,
        reader: SharedReader,
        *,
        on_marked: Callable[[], None],
        steady_nano: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._on_marked = on_marked
        self._steady = steady_nano

    def mark_deleted(self, tenant: str, marks: Marks) -> int:
        """Reject records that marks match from now on; return the id of the newest body."""

        def work(connection: sqlite3.Connection) -> int:
            newest = deleted.mark(connection, tenant, marks, now=self._steady())
            self._on_marked()
            return newest

        return int(self._writer.submit(work).result())

    def is_marked(self, tenant: str, marks: Marks) -> bool:
        """Return whether one of these marks is set."""
        query = "SELECT 1 FROM deleted WHERE tenant=? AND what=? AND id=?"
        return any(self._reader.rows(query, tenant, *pair) for pair in marks.pairs())

    def mentions(self, tenant: str, marks: Marks) -> bool:
        """Return whether a queued body or quarantine entry contains records that marks match."""
        names = [name.encode() for name in (*marks.traces, *marks.users)]
        names += [bytes.fromhex(name) for name in marks.otel]
        # JSON may escape non-ASCII names: a substring search would miss them, so decode every body.
        plain = all(name.isascii() for name in (*marks.traces, *marks.users))
        holds = " OR ".join(["instr(data, ?)"] * len(names)) if plain else "1"
        for table in ("bodies", "quarantine"):
            with self._reader.held() as connection:
                rows = connection.execute(
                    f"SELECT kind, data FROM {table} WHERE tenant=? AND ({holds})",
                    (tenant, *(names if plain else ())),
                )
                if any(deleted.without(Kind(kind), data, marks)[1] for kind, data in rows):
                    return True
        return False

    def undelivered(self, tenant: str, *, up_to: int) -> int:
        """Return how many of a tenant's bodies with ids up to `up_to` are not delivered."""
        ((waiting,),) = self._reader.rows(
            "SELECT count(*) FROM bodies AS b WHERE tenant=? AND id<=? AND NOT EXISTS (SELECT 1 FROM"
            " batches WHERE kind=b.kind AND b.id BETWEEN first_body AND last_body"
            " AND done_unix_nano IS NOT NULL)",
            tenant,
            up_to,
        )
        return int(waiting)

    def purge(self, tenant: str, marks: Marks, *, up_to: int) -> int:
        """Remove deleted data from the queue and from the free pages of its file.

        Returns the number of records removed from quarantine. Undelivered bodies are not touched:
        deliver them first.
        """

        def work(connection: sqlite3.Connection) -> int:
            # Freed pages are overwritten.
            connection.execute("PRAGMA secure_delete=ON").fetchall()
            try:
                _delete_delivered(connection, tenant, up_to)
                return _drop_quarantined(connection, tenant, marks)
            finally:
                connection.execute(f"PRAGMA secure_delete={SECURE_DELETE}").fetchall()

        quarantined = int(self._writer.submit(work).result())
        # Pages freed earlier may hold the same text, so all are released. Small transactions let
        # other jobs commit in between.
        self._reader.rows("PRAGMA wal_checkpoint(PASSIVE)")
        while self._writer.submit(partial(give_back, keeps_some=False)).result():
            pass
        self._reader.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return quarantined


def _delete_delivered(connection: sqlite3.Connection, tenant: str, up_to: int) -> None:
    where = "FROM bodies WHERE kind=? AND id BETWEEN ? AND ? AND tenant=?"
    for batch, kind, first, last in connection.execute(
        "SELECT id, kind, first_body, last_body FROM batches WHERE done_unix_nano IS NOT NULL"
    ).fetchall():
        place = (kind, first, min(last, up_to), tenant)
        (size,) = connection.execute(f"SELECT coalesce(sum(bytes), 0) {where}", place).fetchone()
        connection.execute(f"DELETE {where}", place)
        connection.execute("UPDATE batches SET bytes = bytes - ? WHERE id=?", (size, batch))


def _drop_quarantined(connection: sqlite3.Connection, tenant: str, marks: Marks) -> int:
    """Drop the quarantine entries that marks match; return the number of their records."""
    dropped = 0
    for entry, kind, records, data in connection.execute(
        "SELECT id, kind, records, data FROM quarantine WHERE tenant=?", (tenant,)
    ).fetchall():
        if deleted.without(Kind(kind), data, marks)[1]:
            quarantine.drop(connection, entry, tenant=tenant)
            dropped += records
    return dropped
