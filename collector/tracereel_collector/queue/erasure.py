"""Deletion from the queue: reject late records and remove text from its file."""

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from tracereel_collector.model import Marks
from tracereel_collector.queue import deleted, free_pages, gauges, tenant_bytes
from tracereel_collector.queue.append import count
from tracereel_collector.queue.writer import CommitThread


class QueueErasure:
    """Deletes data that marks match, using the connections of its queue."""

    def __init__(
        self,
        writer: CommitThread,
        reader: sqlite3.Connection,
        reader_lock: threading.Lock,
        *,
        on_marked: Callable[[], None],
        steady_nano: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._reader_lock = reader_lock
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
        return any(
            self._select("SELECT 1 FROM deleted WHERE tenant=? AND what=? AND id=?", tenant, *pair)
            for pair in marks.pairs()
        )

    def mentions(self, tenant: str, marks: Marks) -> bool:
        """Return whether a queued body or quarantine entry contains records that marks match."""
        with self._reader_lock:
            return deleted.mentions(self._reader, tenant, marks)

    def undelivered(self, tenant: str, *, up_to: int) -> int:
        """Return how many of a tenant's bodies with ids up to `up_to` are not delivered."""
        with self._reader_lock:
            return deleted.undelivered(self._reader, tenant, up_to=up_to)

    def purge(self, tenant: str, marks: Marks, *, up_to: int) -> int:
        """Remove deleted data from the queue and from the free pages of its file.

        Returns the number of records removed from quarantine. Undelivered bodies are not touched:
        deliver them first.
        """

        def work(connection: sqlite3.Connection) -> int:
            left = deleted.purge(connection, tenant, marks, up_to=up_to)
            for kind, (records, size) in left.items():
                gauges.add(connection, gauges.QUARANTINED, kind, -size)
                tenant_bytes.add(connection, tenant, quarantined=-size)
                count(connection, "dropped", kind, records)
            return sum(records for records, _ in left.values())

        quarantined = int(self._writer.submit(work).result())
        # Pages freed earlier may hold the same text, so all are released. Small transactions let
        # other jobs commit in between.
        self._checkpoint("PASSIVE")
        while self._writer.submit(free_pages.give_back_last).result():
            pass
        self._checkpoint("TRUNCATE")
        return quarantined

    def _checkpoint(self, how: str) -> None:
        with self._reader_lock:
            self._reader.execute(f"PRAGMA wal_checkpoint({how})").fetchall()

    def _select(self, query: str, *parameters: object) -> list[Any]:
        with self._reader_lock:
            return self._reader.execute(query, parameters).fetchall()
