"""Public interface of the durable queue: append, deliver batches, inspect, quarantine."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tracereel_collector.errors import QueueUnavailableError, StartupError, ThrottledError
from tracereel_collector.model import (
    SESSION_FLAG,
    Batch,
    Body,
    Kind,
    Quarantined,
    QueuedBody,
    Receipt,
    Relay,
    WaitingEvents,
)
from tracereel_collector.queue import batches, bodies, relays, waiting
from tracereel_collector.queue.admission import Admission, QueueLimits
from tracereel_collector.queue.append import REJECTED, Appender
from tracereel_collector.queue.database import SharedReader, connect, open_or_set_aside
from tracereel_collector.queue.erasure import QueueErasure
from tracereel_collector.queue.following import QueueFollower
from tracereel_collector.queue.free_pages import give_back
from tracereel_collector.queue.membership import Membership
from tracereel_collector.queue.quarantine import Quarantine
from tracereel_collector.queue.rescue import take_over
from tracereel_collector.queue.waiters import Sleepers
from tracereel_collector.queue.writer import CommitThread, Work
from tracereel_collector.runtime.file_lock import locked
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy
from tracereel_collector.telemetry import Pressure

COUNTERS = (
    *("received", "rejected", "appended", "stored"),
    *("duplicate", "quarantined", "retried", "dropped", "damaged", "relayed", "from_peers"),
)
FORGET_EVERY_SECONDS = 1.0
SHORTEN_SECONDS = 0.05
"""Time limit for shrinking the file in each `tidy`."""
NUMBERS_LEFT_OUT = 1_000_000
_TOUCH = "UPDATE meta SET value = value WHERE key = 'next_sequence_number'"


class Ring(Protocol):
    """Callback by which a guest process notifies the owner."""

    def __call__(self, kinds: set[Kind], /, *, hurry: bool) -> None:
        """Report that bodies of these kinds were appended, or are needed soon (`hurry`)."""
        ...


class DurableQueue:
    """Durable queue in one SQLite file; thread-safe.

    Several processes may open it: the owner creates, repairs and delivers it, guests only append.
    `shared` serialises their writes; `ring` notifies the owner of a guest's appends.
    `refuse_foreign_users` refuses events of users who do not own their session, instead of flagging.
    `now_unix_nano` provides timestamps; `steady_nano` measures time windows and must not step.
    """

    def __init__(
        self,
        path: Path,
        limits: QueueLimits,
        *,
        now_unix_nano: Callable[[], int] = time.time_ns,
        steady_nano: Callable[[], int] | None = None,
        free_bytes: Callable[[], int] | None = None,
        shared: bool = False,
        ring: Ring | None = None,
        shares: SharePolicy = ONE_TENANT,
        refuse_foreign_users: bool = False,
    ) -> None:
        self._path = path
        self._limits = limits
        self._now = now_unix_nano
        self._ring = ring
        self._steady = steady_nano or now_unix_nano
        self._appender = Appender(self._steady, refuse_foreign_users=refuse_foreign_users)
        self._sleepers = Sleepers()
        self._hurried: set[Kind] = set()
        self._forgotten_at = 0.0
        self._trouble: str | None = None
        self.damaged_files: list[Path] = []
        self.rescued_bodies = 0
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = connect(path) if ring is not None else self._own(path)
        self._admission = Admission(path, limits, shares, free_bytes=free_bytes)
        self._reader = SharedReader(path)
        self._read = self._reader.rows
        self.id = str(self._read("SELECT value FROM meta WHERE key='queue_id'")[0][0])
        self._writer = CommitThread(
            self._connection,
            commit_bytes=limits.commit_bytes,
            # SQLite's own lock would be correct, but its waiters sleep and poll.
            turn=partial(locked, path.with_name("turns")) if shared else contextlib.nullcontext,
            on_begin=self._appender.begin,
            on_commit=self._after_commit,
            on_rollback=self._after_rollback,
        )
        self.erasure = QueueErasure(
            self._writer,
            self._reader,
            on_marked=self._appender.deleted.look_again,
            steady_nano=self._steady,
        )
        """Deletion from the queue and its file."""
        self.quarantine = Quarantine(
            self._writer, self._reader, on_retried=self._appender.fresh.add
        )
        """Records that the store refused."""
        self.outbox = relays.Outbox(self._writer, self._reader, now_unix_nano=self._steady)
        """Bodies that belong to another member of the group."""
        self.membership = Membership(
            self._writer, self._reader, self._appender, self._steady, self.id
        )
        """Whether this queue's ledger may decide in its group."""

    def _own(self, path: Path) -> sqlite3.Connection:
        connection, self.damaged_files = open_or_set_aside(path)
        try:
            for damaged in self.damaged_files:
                self.rescued_bodies += take_over(
                    connection, self._appender, damaged, now=self._now()
                )
            connection.execute("BEGIN IMMEDIATE")
            bodies.measure(connection)
            relays.measure(connection)
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            connection.close()
            raise StartupError(
                f"cannot write to the queue {path}: {error}", hint="is its disk full, or failing?"
            ) from error
        return connection

    def close(self) -> None:
        """Commit waiting jobs and close the file; safe to call twice."""
        self._writer.stop()
        self._connection.close()
        self._reader.close()
        self._admission.close()

    # Appending

    def append(self, body: Body) -> "Future[Receipt]":
        """Append a body; the future resolves once it is on disk and numbered.

        Raises:
            ThrottledError: undelivered bytes, of all tenants or this one, are at their limit.
            QueueUnavailableError: the disk is full or the queue is closed.
        """
        return self._admit(body, partial(self._appender.append, body=body))

    def relay(
        self, body: Body, *, owner: str, passed: str = "", is_awaited: bool = False
    ) -> "Future[Receipt]":
        """Put a body into the outbox for its owner; resolves and raises like `append`."""

        def work(connection: sqlite3.Connection) -> Receipt:
            # The owner process is woken as for any body of this kind.
            self._appender.fresh.add(body.kind)
            return relays.put(
                connection, body=body, owner=owner, passed=passed, is_awaited=is_awaited
            )

        return self._admit(body, work)

    def _admit(self, body: Body, work: Work) -> "Future[Receipt]":
        size, tenant, waiting = len(body.data), body.tenant, self._writer.waiting_bytes
        self._admission.check(size, waiting=waiting)
        self._admission.check_share(tenant, size, waiting=waiting)
        appended = self._writer.submit(work, size=size)
        self._admission.follow(appended, tenant, size)
        return appended

    def take(self, source: str, taken: Sequence[Relay]) -> "Future[list[Receipt | None]]":
        """Append relays from another queue's outbox; None for those that were taken before.

        A tenant's share was checked where they were acknowledged: one tenant must not hold up the
        relays of the others.

        Raises:
            ThrottledError: undelivered bytes are at their limit.
            QueueUnavailableError: the disk is full or the queue is closed.
        """
        size = sum(len(each.body.data) for each in taken)
        self._admission.check(size, waiting=self._writer.waiting_bytes)
        return self._writer.submit(
            lambda connection: relays.take(
                connection, self._appender, source=source, relays=taken, now=self._steady()
            ),
            size=size,
        )

    @property
    def pending_bytes(self) -> int:
        """Bytes acknowledged and not yet in the store."""
        return self._admission.held.pending

    def refusal(self) -> str | None:
        """Return why an append would be refused now, with a hint; None if accepted."""
        try:
            self._admission.check(0, waiting=self._writer.waiting_bytes)
        except (ThrottledError, QueueUnavailableError) as error:
            return f"{error.message}; {error.hint}"
        if self._trouble is not None:
            # The last commit failed: write a no-op to find out whether commits work again.
            self._writer.submit(lambda connection: connection.execute(_TOUCH))
        return self._trouble

    # Delivery

    def wait_for_bytes(self, kind: str, at_least: int, *, timeout: float) -> int:
        """Wait for enough unsealed bytes of a kind or a lane, for `hurry`, or for `timeout`."""

        def is_enough() -> bool:
            waiting = self._admission.held.unsealed.get(kind, 0)
            # Without waiting bytes a hurry is ignored: it would make the delivery thread spin.
            return waiting >= at_least or (waiting > 0 and kind in self._hurried)

        self._sleepers.sleep_until(is_enough, timeout=timeout)
        return self._admission.held.unsealed.get(kind, 0)

    def hurry(self, kind: Kind) -> None:
        """Deliver the next batch of a kind without waiting for more bytes."""
        if self._ring is not None:
            self._ring({kind}, hurry=True)
            return
        self._hurried.add(kind)
        self._sleepers.look()

    def note_appends(self, hurried: set[Kind]) -> None:
        """Read the held bytes after another process appended, and hurry some kinds."""
        self._admission.look()
        self._hurried.update(hurried)
        self._sleepers.look()

    def has_open_batch(self, kind: Kind) -> bool:
        """Return whether a sealed batch waits for delivery or for a retry."""
        return bool(
            self._read(
                "SELECT 1 FROM batches WHERE kind=? AND done_unix_nano IS NULL LIMIT 1", kind
            )
        )

    def next_batch(self, kind: Kind, *, max_records: int, max_bytes: int) -> Batch | None:
        """Return the oldest open batch, or seal a new one; None if no bodies wait."""

        def work(connection: sqlite3.Connection) -> Batch | None:
            self._hurried.discard(kind)
            return batches.open_or_seal(
                connection, kind, queue_id=self.id, max_records=max_records, max_bytes=max_bytes
            )

        result: Batch | None = self._write(work)
        return result

    def bodies_of(self, batch: Batch) -> list[QueuedBody]:
        """Return the bodies of a batch in order, without those damaged on disk."""
        return bodies.readable(
            self._read(
                f"SELECT {bodies.COLUMNS} FROM bodies WHERE kind=? AND id BETWEEN ? AND ? ORDER BY id",
                *(batch.kind, batch.first_body, batch.last_body),
            )
        )

    def done(self, batch: Batch, *, stored: int, quarantined: list[Quarantined]) -> None:
        """Record that a batch is in the store, except for its quarantined records."""

        def work(connection: sqlite3.Connection) -> None:
            batches.mark_done(
                connection,
                batch,
                quarantined=quarantined,
                stored=stored,
                now=self._now(),
                steady=self._steady(),
            )
            self._forget(connection)

        self._write(work)

    def tidy(self) -> None:
        """Delete delivered bodies after their retention time, and shrink the file."""
        if time.monotonic() - self._forgotten_at <= FORGET_EVERY_SECONDS:
            return
        self._write(self._forget)
        until = time.monotonic() + SHORTEN_SECONDS
        while self._write(give_back) and time.monotonic() < until:
            pass

    def _forget(self, connection: sqlite3.Connection) -> None:
        if time.monotonic() - self._forgotten_at > FORGET_EVERY_SECONDS:
            self._forgotten_at = time.monotonic()
            retained = self._limits.retain_seconds
            batches.forget_old(connection, now=self._steady(), retain_seconds=retained)

    def number_after(self, highest: int) -> None:
        """Skip sequence numbers that the store already has. The file may be new or an old copy."""
        # The rows of one request may share their first number: leave room for the others.
        skip = "UPDATE meta SET value=? WHERE key='next_sequence_number' AND value <= ?"
        numbers = (highest + NUMBERS_LEFT_OUT, highest)
        self._write(lambda connection: connection.execute(skip, numbers))

    # Inspection

    def counters(self) -> dict[tuple[str, str], int]:
        """Return the committed conservation counters by name and kind."""
        counts = {(name, kind.value): 0 for name in COUNTERS for kind in Kind}
        for name, kind, value in self._read("SELECT name, kind, value FROM counters"):
            if name in COUNTERS or name.startswith(REJECTED):
                counts[name, kind] = value
        return counts

    def pressure(self) -> Pressure:
        """Return the delivery lag and the remaining capacity."""
        arrivals = [row[0] for kind in Kind for row in self._read(bodies.OLDEST, kind)]
        oldest = min(filter(None, (*arrivals, self.outbox.oldest_unix_nano())), default=None)
        return Pressure(
            oldest_seconds=0.0 if oldest is None else max(0.0, (self._now() - oldest) / 1e9),
            quarantined_bytes=self._admission.held.quarantined,
            limit_bytes=self._limits.max_pending_bytes,
            disk_free_bytes=self._admission.disk_free_bytes,
            disk_kept_bytes=self._limits.min_free_bytes,
        )

    def session_mismatches(self) -> int:
        """Return the committed number of events flagged for claiming another user's session."""
        found = self._read("SELECT sum(value) FROM counters WHERE name=?", SESSION_FLAG)
        return int(found[0][0] or 0)

    def events_waiting(self, *, tenant: str, trace_id: str) -> WaitingEvents:
        """Return how many events of a run are queued and not yet in the store."""
        return waiting.events_waiting(self._read, tenant=tenant, trace_id=trace_id)

    def newest_body(self, kind: Kind) -> int | None:
        """Return the id of the newest body of a kind; None if there is none."""
        newest: int | None = self._read("SELECT max(id) FROM bodies WHERE kind=?", kind)[0][0]
        return newest

    def is_delivered(self, kind: Kind, body_id: int) -> bool:
        """Return whether a body's batch is in the store."""
        sealed = self._read(
            "SELECT done_unix_nano FROM batches WHERE kind=? AND ? BETWEEN first_body AND last_body",
            kind,
            body_id,
        )
        if sealed:
            return sealed[0][0] is not None
        # No batch has it: it is unsealed, or was delivered long ago and deleted.
        return not self._read("SELECT 1 FROM bodies WHERE id=?", body_id)

    def follow(self, *kinds: Kind) -> QueueFollower:
        """Return a reader of appended bodies of some kinds, whichever process appended them."""
        return QueueFollower(self._path, kinds=kinds)

    # Internals

    def _write(self, work: Work) -> Any:
        """Run work in a transaction and return its result once it is durable."""
        return self._writer.submit(work).result()

    def _after_commit(self, connection: sqlite3.Connection) -> None:
        self._trouble = None
        try:
            self._admission.held = bodies.HeldBytes.of(connection.execute(bodies.TOTALS))
        except sqlite3.Error:
            pass  # the commit stands; the held bytes are read again after the next one
        fresh = self._appender.fresh.copy()
        self._appender.fresh.clear()
        if self._ring is not None and fresh:
            self._ring(fresh, hurry=False)
        self._sleepers.look()

    def _after_rollback(self, error: BaseException) -> None:
        self._appender.forget()
        if isinstance(error, sqlite3.Error):
            self._trouble = str(error)
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            self._admission.disk_is_full()
