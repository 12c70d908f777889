"""The queue as the rest of the collector sees it: append, take a batch, mark it done, look in."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tracereel_collector.errors import QueueUnavailableError, StartupError, ThrottledError
from tracereel_collector.model import (
    SESSION_FLAG,
    Batch,
    Body,
    Kind,
    Marks,
    Quarantined,
    QuarantineEntry,
    QueuedBody,
    Receipt,
    Waiting,
)
from tracereel_collector.queue import batches, deleted, gauges, quarantine, waiting
from tracereel_collector.queue.append import REJECTED, Appender, count
from tracereel_collector.queue.database import connect, open_or_set_aside
from tracereel_collector.queue.following import QueueFollower
from tracereel_collector.queue.rescue import take_over
from tracereel_collector.queue.reserve import FreeSpace, Reserve
from tracereel_collector.queue.sleepers import Sleepers
from tracereel_collector.queue.turns import Turns
from tracereel_collector.queue.writer import CommitThread
from tracereel_collector.telemetry import Pressure

COUNTERS = (
    *("received", "rejected", "appended", "stored"),
    *("duplicate", "quarantined", "retried", "dropped", "damaged"),
)
RESERVE_BYTES = 16 * 1024 * 1024
FORGET_EVERY_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1
NUMBERS_LEFT_OUT = 1_000_000
_TOUCH = "UPDATE meta SET value = value WHERE key = 'next_sequence_number'"


class Ring(Protocol):
    """How a guest tells the owner."""

    def __call__(self, kinds: set[Kind], /, *, hurry: bool) -> None:
        """Bodies of these kinds were appended, or are waited for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much the queue takes and keeps."""

    commit_bytes: int
    max_pending_bytes: int
    retain_seconds: float
    min_free_bytes: int = 0


class DurableQueue:
    """One SQLite file; every method may be called from any thread.

    Several processes may have it open: the one that owns it makes, mends and empties it, the guests
    append. `shared` makes them take turns; `ring` tells the owner what a guest has appended.
    """

    def __init__(
        self,
        path: Path,
        limits: QueueLimits,
        *,
        now_unix_nano: Callable[[], int] = time.time_ns,
        free_bytes: Callable[[], int] | None = None,
        shared: bool = False,
        ring: Ring | None = None,
    ) -> None:
        self._path = path
        self._limits = limits
        self._free = FreeSpace(path.parent, free_bytes)
        self._now = now_unix_nano
        self._ring = ring
        self._appender = Appender()
        self._fresh: set[Kind] = set()
        self._sleepers = Sleepers()
        self._hurried: set[Kind] = set()
        self._forgotten_at = 0.0
        self._looked_at = 0.0
        self._disk_full = False
        self._trouble: str | None = None
        self.damaged_files: list[Path] = []
        self.rescued_bodies = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._reserve = Reserve(path.with_name("reserve"), size=RESERVE_BYTES)
        self._turns = Turns(path.with_name("turns")) if shared else None
        self._connection = connect(path) if ring is not None else self._own(path)
        self._reader = connect(path)
        self._reader_lock = threading.Lock()
        self.id = str(self._read("SELECT value FROM meta WHERE key='queue_id'")[0][0])
        self._bytes = gauges.read(self._reader)
        self._disk_full = not self._reserve.keep()
        self._writer = CommitThread(
            self._connection,
            commit_bytes=limits.commit_bytes,
            turn=self._turns.mine if self._turns else contextlib.nullcontext,
            on_begin=self._appender.begin,
            on_commit=self._after_commit,
            on_rollback=self._after_rollback,
        )
        self._writer.start()

    def _own(self, path: Path) -> sqlite3.Connection:
        connection, damaged = open_or_set_aside(path)
        try:
            self.damaged_files = [rescue.aside for rescue in damaged]
            self.rescued_bodies = sum(
                take_over(connection, self._appender, rescue) for rescue in damaged
            )
            connection.execute("BEGIN IMMEDIATE")
            gauges.measure(connection)
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            connection.close()
            raise StartupError(
                f"cannot write to the queue {path}: {error}", hint="is its disk full, or failing?"
            ) from error
        return connection

    def close(self) -> None:
        """Commit what waits and let go of the file; safe to call twice."""
        self._writer.stop()
        self._connection.close()
        with self._reader_lock:
            self._reader.close()
        if self._turns is not None:
            self._turns.close()
            self._turns = None

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
        if receipt.size:
            self._fresh.add(body.kind)
        return receipt

    @property
    def pending_bytes(self) -> int:
        """Bytes acknowledged and not yet in the store."""
        return self._bytes.pending

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
        if self._is_over(size) and time.monotonic() - self._looked_at > LOOK_AGAIN_SECONDS:
            self._look()  # another process may have made room
        if self._is_over(size):
            raise ThrottledError(
                f"{self._bytes.pending} bytes wait for the store,"
                f" the limit is {self._limits.max_pending_bytes}",
                hint="is the store reachable? see /readyz/query",
            )

    def _is_over(self, size: int) -> bool:
        # What is in quarantine stays until somebody looks: it takes its share of the same limit.
        held = self._bytes.pending + self._bytes.quarantined + self._writer.waiting_bytes
        return held + size > self._limits.max_pending_bytes

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

        def is_enough() -> bool:
            waiting = self._bytes.unsealed.get(kind, 0)
            # Who hurries for what has gone already must not keep a thread running in circles.
            return waiting >= at_least or (waiting > 0 and kind in self._hurried)

        self._sleepers.sleep_until(is_enough, timeout=timeout)
        return self._bytes.unsealed.get(kind, 0)

    def hurry(self, kind: Kind) -> None:
        """Somebody waits for the store: let the next batch go as it is."""
        if self._ring is not None:
            self._ring({kind}, hurry=True)
            return
        self._hurried.add(kind)
        self._sleepers.look()

    def heard(self, hurried: set[Kind]) -> None:
        """Another process has appended; some of its kinds are waited for."""
        self._look()
        self._hurried.update(hurried)
        self._sleepers.look()

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

    def number_after(self, highest: int) -> None:
        """Give no number that the store already has: this file may be new, or an old copy."""

        def work(connection: sqlite3.Connection) -> None:
            (following,) = connection.execute(
                "SELECT value FROM meta WHERE key='next_sequence_number'"
            ).fetchone()
            if following <= highest:
                # The rows of one request may share their first number: leave room for the rest.
                connection.execute(
                    "UPDATE meta SET value=? WHERE key='next_sequence_number'",
                    (highest + NUMBERS_LEFT_OUT,),
                )

        self._writer.submit(work).result()

    # Looking in

    def counters(self) -> dict[tuple[str, str], int]:
        """The conservation counters by name and kind, as committed."""
        counts = {(name, kind.value): 0 for name in COUNTERS for kind in Kind}
        for name, kind, value in self._read("SELECT name, kind, value FROM counters"):
            if name in COUNTERS or name.startswith(REJECTED):
                counts[name, kind] = value
        return counts

    def pressure(self) -> Pressure:
        """How late delivery is and how much room is left."""
        oldest = gauges.oldest_unix_nano(self._read)
        return Pressure(
            oldest_seconds=0.0 if oldest is None else max(0.0, (self._now() - oldest) / 1e9),
            quarantined_bytes=self._bytes.quarantined,
            limit_bytes=self._limits.max_pending_bytes,
            disk_free_bytes=self._free.bytes,
            disk_kept_bytes=self._limits.min_free_bytes,
        )

    def session_mismatches(self) -> int:
        """Events flagged because they claim a session of somebody else's, as committed."""
        found = self._read("SELECT sum(value) FROM counters WHERE name=?", SESSION_FLAG)
        return int(found[0][0] or 0)

    @property
    def quarantined_bytes(self) -> int:
        """Bytes set aside, for somebody to look at."""
        return self._bytes.quarantined

    def quarantined(
        self, *, tenant: str, before: int | None = None, limit: int = 100
    ) -> list[QuarantineEntry]:
        """A tenant's quarantined records, the newest first; `before` an id continues a list."""
        with self._reader_lock:
            return quarantine.entries(self._reader, tenant=tenant, before=before, limit=limit)

    def quarantine_entry(self, entry_id: int, *, tenant: str) -> QuarantineEntry | None:
        """One of a tenant's quarantined records, with its data."""
        with self._reader_lock:
            return quarantine.entry(self._reader, entry_id, tenant=tenant)

    def retry_quarantined(self, entry_id: int, *, tenant: str) -> bool:
        """Let delivery try a quarantined record again; whether there is such a record."""

        def work(connection: sqlite3.Connection) -> Kind | None:
            kind = quarantine.retry(connection, entry_id, tenant=tenant)
            if kind is not None:
                self._fresh.add(kind)
            return kind

        return self._writer.submit(work).result() is not None

    def drop_quarantined(self, entry_id: int, *, tenant: str) -> bool:
        """Forget a quarantined record for good; whether there was such a record."""
        return bool(
            self._writer.submit(
                lambda connection: quarantine.drop(connection, entry_id, tenant=tenant)
            ).result()
        )

    def drop_old_quarantined(
        self, before_unix_nano: int, tenants: frozenset[str], *, are_meant: bool
    ) -> int:
        """Forget what is here since before a moment, of some tenants or of all but those."""
        return int(
            self._writer.submit(
                lambda connection: quarantine.drop_old(
                    connection, before_unix_nano, tenants, are_meant=are_meant
                )
            ).result()
        )

    def events_waiting(self, *, tenant: str, trace_id: str) -> Waiting:
        """How many events of a run are here and not yet in the store."""
        return waiting.events_waiting(self._read, tenant=tenant, trace_id=trace_id)

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

    # Deletion

    def mark_deleted(self, tenant: str, marks: Marks) -> int:
        """Take no more of something for a while; the last body that came before."""

        def work(connection: sqlite3.Connection) -> int:
            newest = deleted.mark(connection, tenant, marks, now=self._now())
            self._appender.look_again()
            return newest

        return int(self._writer.submit(work).result())

    def is_marked(self, tenant: str, marks: Marks) -> bool:
        """Whether one of these was deleted lately."""
        return any(
            self._read("SELECT 1 FROM deleted WHERE tenant=? AND what=? AND id=?", tenant, *pair)
            for pair in marks.pairs()
        )

    def mentions(self, tenant: str, marks: Marks) -> bool:
        """Whether something that waits, or is in quarantine, would be deleted."""
        with self._reader_lock:
            return deleted.mentions(self._reader, tenant, marks)

    def undelivered(self, tenant: str, *, up_to: int) -> int:
        """How many of a tenant's bodies wait, of those that had come by a moment."""
        with self._reader_lock:
            return deleted.undelivered(self._reader, tenant, up_to=up_to)

    def purge(self, tenant: str, marks: Marks, *, up_to: int) -> int:
        """Let go of what is deleted, and write over the place where it was.

        Returns how many records were in quarantine. What waits is not touched: deliver it first.
        """

        def work(connection: sqlite3.Connection) -> int:
            left = deleted.purge(connection, tenant, marks, up_to=up_to)
            for kind, (records, size) in left.items():
                gauges.add(connection, gauges.QUARANTINED, kind, -size)
                count(connection, "dropped", kind, records)
            return sum(records for records, _ in left.values())

        quarantined = int(self._writer.submit(work).result())
        while self._writer.submit(deleted.fill_free_pages).result():
            pass
        with self._reader_lock:
            self._reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return quarantined

    def follow(self, *kinds: Kind) -> QueueFollower:
        """Read along what is appended of some kinds, by whichever process."""
        return QueueFollower(self._path, kinds=kinds)

    # Inside

    def _read(self, query: str, *parameters: object) -> list[Any]:
        with self._reader_lock:
            return self._reader.execute(query, parameters).fetchall()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        with self._reader_lock:
            self._bytes = gauges.read(self._reader)

    def _after_commit(self, connection: sqlite3.Connection) -> None:
        self._trouble = None
        try:
            self._bytes = gauges.read(connection)
        except sqlite3.Error:
            pass  # what was committed stays committed; the next one reads again
        fresh, self._fresh = self._fresh, set()
        if self._ring is not None and fresh:
            self._ring(fresh, hurry=False)
        self._sleepers.look()

    def _after_rollback(self, error: BaseException) -> None:
        self._appender.forget()
        self._fresh.clear()
        if isinstance(error, sqlite3.Error):
            self._trouble = str(error)
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            self._disk_full = True
            self._reserve.give_up()
