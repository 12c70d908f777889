"""The queue as the rest of the collector sees it: append, take a batch, mark it done, look in."""

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracereel_collector.errors import QueueUnavailableError, ThrottledError
from tracereel_collector.model import (
    SESSION_FLAG,
    Batch,
    Body,
    Kind,
    Quarantined,
    QueuedBody,
    Receipt,
)
from tracereel_collector.queue import batches
from tracereel_collector.queue.append import Appender
from tracereel_collector.queue.database import (
    Rescued,
    connect,
    open_or_set_aside,
    rescued_mark,
)
from tracereel_collector.queue.reserve import FreeSpace, Reserve
from tracereel_collector.queue.writer import CommitThread

COUNTERS = ("received", "rejected", "appended", "stored", "duplicate", "quarantined")
RESERVE_BYTES = 16 * 1024 * 1024
FORGET_EVERY_SECONDS = 1.0
_TOUCH = "UPDATE meta SET value = value WHERE key = 'next_sequence_number'"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much the queue takes and keeps."""

    commit_bytes: int
    max_pending_bytes: int
    retain_seconds: float
    min_free_bytes: int = 0


class DurableQueue:
    """One SQLite file; every method may be called from any thread."""

    def __init__(
        self,
        path: Path,
        limits: QueueLimits,
        *,
        now_unix_nano: Callable[[], int] = time.time_ns,
        free_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._limits = limits
        self._free = FreeSpace(path.parent, free_bytes)
        self._now = now_unix_nano
        self._appender = Appender()
        self._appended = threading.Condition()
        self._unsealed = dict.fromkeys(Kind, 0)
        self._hurried: set[Kind] = set()
        self._forgotten_at = 0.0
        self._disk_full = False
        self._trouble: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._reserve = Reserve(path.with_name("reserve"), size=RESERVE_BYTES)
        self._connection, damaged = open_or_set_aside(path)
        self.damaged_files = [rescue.aside for rescue in damaged]
        self.rescued_bodies = sum(self._take_over(rescue) for rescue in damaged)
        self._reader = connect(path)
        self._reader_lock = threading.Lock()
        self.id = str(self._read("SELECT value FROM meta WHERE key='queue_id'")[0][0])
        self.pending_bytes = self._quarantined_bytes = 0
        self._measure()
        self._disk_full = not self._reserve.keep()
        self._writer = CommitThread(
            self._connection,
            commit_bytes=limits.commit_bytes,
            on_commit=self._after_commit,
            on_rollback=self._after_rollback,
        )
        self._writer.start()

    def close(self) -> None:
        """Commit what waits and let go of the file; safe to call twice."""
        self._writer.stop()
        self._connection.close()
        with self._reader_lock:
            self._reader.close()

    # The door

    def append(self, body: Body) -> "Future[Receipt]":
        """Keep a body; the future resolves once it is on disk and numbered.

        Raises:
            ThrottledError: undelivered bytes are at their limit.
            QueueUnavailableError: the disk is full or the queue is closed.
        """
        self._refuse_when_full(len(body.data))
        return self._writer.submit(
            lambda connection: self._append(connection, body), size=len(body.data)
        )

    def _append(self, connection: sqlite3.Connection, body: Body) -> Receipt:
        receipt = self._appender.append(connection, body)
        self.pending_bytes += receipt.size
        with self._appended:
            self._unsealed[body.kind] += receipt.size
            self._appended.notify_all()
        return receipt

    def _refuse_when_full(self, size: int) -> None:
        if self._disk_full:
            if not self._reserve.keep():
                raise QueueUnavailableError("the disk is full", hint="free space in the data dir")
            self._disk_full = False
        if self._free.bytes < self._limits.min_free_bytes:
            raise QueueUnavailableError(
                f"{self._free.bytes} bytes of disk are free,"
                f" {self._limits.min_free_bytes} are kept free",
                hint="free space in the data dir, or lower TRACEREEL_MIN_FREE_BYTES",
            )
        if self.pending_bytes + self._quarantined_bytes + size > self._limits.max_pending_bytes:
            raise ThrottledError(
                f"{self.pending_bytes} bytes wait for the store,"
                f" the limit is {self._limits.max_pending_bytes}",
                hint="is the store reachable? see /readyz/query",
            )

    @property
    def accepts(self) -> bool:
        """Whether an append would be taken now."""
        try:
            self._refuse_when_full(0)
        except (ThrottledError, QueueUnavailableError):
            return False
        if self._trouble is not None:
            # The last commit failed: one that changes nothing but is written tells how it is now.
            self._writer.submit(lambda connection: connection.execute(_TOUCH))
        return self._trouble is None

    # Delivery

    def wait_for_bytes(self, kind: Kind, at_least: int, *, timeout: float) -> int:
        """Sleep until so many unsealed bytes of a kind wait, somebody hurries, or time is over."""
        with self._appended:
            self._appended.wait_for(
                lambda: self._unsealed[kind] >= at_least or kind in self._hurried, timeout
            )
            return self._unsealed[kind]

    def hurry(self, kind: Kind) -> None:
        """Somebody waits for the store: let the next batch go as it is."""
        with self._appended:
            self._hurried.add(kind)
            self._appended.notify_all()

    def has_open_batch(self, kind: Kind) -> bool:
        """Whether a sealed batch waits to be delivered (again)."""
        return bool(
            self._read(
                "SELECT 1 FROM batches WHERE kind=? AND done_unix_nano IS NULL LIMIT 1", kind
            )
        )

    def next_batch(self, kind: Kind, *, max_records: int, max_bytes: int) -> Batch | None:
        """The oldest batch not yet done; a new one is sealed from what waits when there is none."""

        def work(connection: sqlite3.Connection) -> Batch | None:
            batch = batches.open_or_seal(
                connection,
                kind,
                queue_id=self.id,
                max_records=max_records,
                max_bytes=max_bytes,
            )
            with self._appended:
                self._unsealed[kind] = self._unsealed_bytes(connection, kind)
                self._hurried.discard(kind)
            return batch

        result: Batch | None = self._writer.submit(work).result()
        return result

    def bodies_of(self, batch: Batch) -> list[QueuedBody]:
        """The bodies of a batch, in order; those damaged on disk are left out."""
        with self._reader_lock:
            return batches.read_bodies(self._reader, batch)

    def done(self, batch: Batch, *, stored: int, quarantined: list[Quarantined]) -> None:
        """Write down that a batch is in the store, less what was quarantined."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._now()
            batches.mark_done(connection, batch, quarantined=quarantined, stored=stored, now=now)
            self.pending_bytes -= batch.size
            self._quarantined_bytes += sum(len(each.data) for each in quarantined)
            self._forget(connection, now)

        self._writer.submit(work).result()

    def tidy(self) -> None:
        """Let go of what has been delivered and kept long enough."""
        if time.monotonic() - self._forgotten_at > FORGET_EVERY_SECONDS:
            self._writer.submit(lambda connection: self._forget(connection, self._now())).result()

    def _forget(self, connection: sqlite3.Connection, now: int) -> None:
        if time.monotonic() - self._forgotten_at > FORGET_EVERY_SECONDS:
            self._forgotten_at = time.monotonic()
            batches.forget_old(connection, now=now, retain_seconds=self._limits.retain_seconds)

    # Looking in

    def counters(self) -> dict[tuple[str, str], int]:
        """The conservation counters by name and kind, as committed."""
        counts = {(name, kind.value): 0 for name in COUNTERS for kind in Kind}
        for name, kind, value in self._read("SELECT name, kind, value FROM counters"):
            if name in COUNTERS:
                counts[name, kind] = value
        return counts

    def session_mismatches(self) -> int:
        """Events flagged because they claim a session of somebody else's, as committed."""
        found = self._read("SELECT sum(value) FROM counters WHERE name=?", SESSION_FLAG)
        return int(found[0][0] or 0)

    def quarantine(self, limit: int = 100) -> list[tuple[str, str, int, str]]:
        """The newest quarantined records: kind, tenant, sequence number, reason."""
        return self._read(
            "SELECT kind, tenant, sequence_number, reason FROM quarantine ORDER BY id DESC LIMIT ?",
            limit,
        )

    def newest_body(self, kind: Kind) -> int | None:
        """The last body of a kind that is still here; None when there is none."""
        newest: int | None = self._read("SELECT max(id) FROM bodies WHERE kind=?", kind)[0][0]
        return newest

    def is_delivered(self, kind: Kind, body_id: int) -> bool:
        """Whether a body's batch is in the store."""
        sealed = self._read(
            "SELECT done_unix_nano FROM batches WHERE kind=? AND ? BETWEEN first_body AND last_body",
            kind,
            body_id,
        )
        if sealed:
            return sealed[0][0] is not None
        # No batch has it: it waits unsealed, or was delivered so long ago that it is forgotten.
        return not self._read("SELECT 1 FROM bodies WHERE id=?", body_id)

    # Inside

    def _read(self, query: str, *parameters: object) -> list[Any]:
        with self._reader_lock:
            return self._reader.execute(query, parameters).fetchall()

    def _after_commit(self) -> None:
        self._trouble = None

    def _after_rollback(self, error: BaseException) -> None:
        self._appender.forget()
        self._measure()
        if isinstance(error, sqlite3.Error):
            self._trouble = str(error)
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            self._disk_full = True
            self._reserve.give_up()

    def _measure(self) -> None:
        total, done = self._read(
            "SELECT (SELECT coalesce(sum(bytes), 0) FROM bodies),"
            " (SELECT coalesce(sum(bytes), 0) FROM batches WHERE done_unix_nano IS NOT NULL)"
        )[0]
        self.pending_bytes = total - done
        # What is in quarantine stays until somebody looks: it takes its share of the same limit.
        (self._quarantined_bytes,) = self._read(
            "SELECT coalesce(sum(length(data)), 0) FROM quarantine"
        )[0]
        with self._reader_lock, self._appended:
            for kind in Kind:
                self._unsealed[kind] = self._unsealed_bytes(self._reader, kind)

    @staticmethod
    def _unsealed_bytes(connection: sqlite3.Connection, kind: Kind) -> int:
        row = connection.execute(batches.UNSEALED_BYTES, (kind,)).fetchone()
        return int(row[0])

    def _take_over(self, rescued: Rescued) -> int:
        """Put what a damaged queue still held into the new one."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE meta SET value=max(value, ?) WHERE key='next_sequence_number'",
            (rescued.next_sequence_number,),
        )
        bodies = 0
        for kind, tenant, records, received, data in rescued.bodies:
            body = Body(
                kind=Kind(kind),
                tenant=tenant,
                received_unix_nano=received,
                data=data,
                records=records,
            )
            bodies += bool(self._appender.append(connection, body).appended)
        connection.executemany(
            "INSERT OR REPLACE INTO emitters VALUES (?, ?, ?, ?)", rescued.emitters
        )
        # In the same transaction: a crash before this line starts the rescue again.
        connection.execute("INSERT INTO meta VALUES (?, 1)", (rescued_mark(rescued.aside),))
        connection.execute("COMMIT")
        return bodies
