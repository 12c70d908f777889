"""Delivery worker: threads that seal batches, insert them and mark them done."""

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import structlog

from tracereel_collector.deliver.pace import Pace
from tracereel_collector.deliver.poison import NothingPassesError, are_few, insert_in_parts
from tracereel_collector.errors import (
    CollectorError,
    PermanentError,
    RetryableError,
    StoreUnavailableError,
    TooMuchAtOnceError,
    UnknownRefusalError,
)
from tracereel_collector.model import Batch, Kind, Quarantined, QueuedBody
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime import failpoints
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.telemetry import DeliveryMetrics, name_thread

log = structlog.get_logger(__name__)

FIRST_BACKOFF, LAST_BACKOFF = 0.1, 10.0
IDLE_SECONDS = 0.5
READ_SECONDS = 30.0
"""Time after the last read for which records are stored soon after their arrival."""
WORTHY_BYTES = 8 * 1024 * 1024
"""Bytes that are worth an insert although there are no reads."""
REFUSALS = 2
REFUSALS_ALONE = 20
"""Retries for a single record when memory is short: about twenty seconds."""
UNKNOWN_SECONDS, UNKNOWN_SECONDS_OF_FEW = 60.0, 600.0
"""Seconds of unknown refusals until a batch is split.

With few records it is undecidable whether they or the store are at fault, so they get more time.
"""
OTLP_KINDS = frozenset({Kind.SPANS, Kind.LOGS, Kind.METRICS})


OnBatch = Callable[[Batch, int, float], None]
"""Receives a finished batch, the records stored, and the seconds including all retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Size limits of a batch, and how long it may wait to fill up."""

    max_records: int
    max_bytes: int
    linger_seconds: float
    unread_seconds: float = 0.0
    """Further time that it may wait while there are no reads."""

    def bytes_of(self, kind: Kind) -> int:
        """Return the byte limit of a kind. The engine needs several times an OTLP request's size."""
        return self.max_bytes // 2 if kind in OTLP_KINDS else self.max_bytes


class DeliveryWorker:
    """Moves batches from the queue to the store until stopped; unfinished batches stay queued."""

    def __init__(
        self,
        queue: DurableQueue,
        store: ClickHouseStore,
        limits: BatchLimits,
        *,
        metrics: DeliveryMetrics,
        prepare: Callable[[], None],
        on_delivered: Callable[[], None],
        writers: StoreWriters | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._queue = queue
        self._store = store
        self._limits = limits
        self._metrics = metrics
        self._prepare = prepare
        self._on_delivered = on_delivered
        self._writers = writers
        self._on_batch = on_batch
        self._paces = {kind: Pace(limits.linger_seconds) for kind in Kind}
        self._unsure = set(Kind)
        """Kinds whose next batch may have been inserted by an earlier process."""
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(kind,), name=f"deliver-{kind}", daemon=True)
            for kind in Kind
        ]

    def start(self) -> None:
        """Start the delivery threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, *, timeout: float) -> None:
        """Stop after the current insert; safe without start and safe to call twice."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, kind: Kind) -> None:
        name_thread(f"deliver-{kind}")
        while not self._stop.is_set():
            try:
                self._deliver_next(kind)
            except RetryableError as error:
                # An insert raises this only when stopping: the batch keeps its token for the next start.
                if not self._stop.is_set():
                    log.error("delivery_interrupted", kind=kind, reason=error.message)
                    self._stop.wait(1.0)
            except Exception as error:
                log.exception("delivery_failed", kind=kind, reason=str(error))
                self._stop.wait(1.0)

    def _deliver_next(self, kind: Kind) -> None:
        limits, pace = self._limits, self._paces[kind]
        if not self._queue.has_open_batch(kind):
            if not self._queue.wait_for_bytes(kind, 1, timeout=IDLE_SECONDS):
                self._queue.tidy()
                return
            wait = pace.wait_seconds(time.perf_counter())
            self._queue.wait_for_bytes(kind, limits.bytes_of(kind), timeout=wait)
            self._wait_while_unread(kind)
        with self._writing() as may_write:
            sealed = time.perf_counter()
            if may_write and (batch := self._next_batch(kind)) is not None:
                self._deliver(batch)
                more_waits = self._queue.wait_for_bytes(kind, 1, timeout=0.0) > 0
                pace.batch_ended(batch.records, sealed=sealed, more_waits=more_waits)

    def _wait_while_unread(self, kind: Kind) -> None:
        """Collect more while there are no reads: an insert of few records costs as much as one of many."""
        ends = time.monotonic() + self._limits.unread_seconds
        while (left := ends - time.monotonic()) > 0 and not self._stop.is_set():
            if self._queue.is_hurried(kind) or self._queue.was_awaited(within_seconds=READ_SECONDS):
                return
            wait = min(left, IDLE_SECONDS)
            if self._queue.wait_for_bytes(kind, WORTHY_BYTES, timeout=wait) >= WORTHY_BYTES:
                return

    def settle(self) -> None:
        """Deliver all sealed batches in this thread, so that none has an unknown state."""
        for kind in Kind:
            while self._queue.has_open_batch(kind):
                if (batch := self._next_batch(kind)) is not None:
                    self._deliver(batch)

    def _writing(self) -> AbstractContextManager[bool]:
        """Hold the writer lock from sealing until done, so that backups see no open batch."""
        if self._writers is None:
            return contextlib.nullcontext(True)
        return self._writers.writing(stop=self._stop)

    def _next_batch(self, kind: Kind) -> Batch | None:
        limits = self._limits
        return self._queue.next_batch(
            kind, max_records=limits.max_records, max_bytes=limits.bytes_of(kind)
        )

    def _deliver(self, batch: Batch) -> None:
        started = time.perf_counter()
        bodies = self._queue.bodies_of(batch)
        readable = sum(body.records for body in bodies)
        refused = self._insert_or_take_apart(batch, bodies) if bodies else []
        stored = readable - sum(each.records for each in refused)
        failpoints.here("before_done")
        self._queue.done(batch, stored=stored, quarantined=refused)
        failpoints.here("after_done")
        if self._on_batch is not None:
            self._on_batch(batch, stored, time.perf_counter() - started)
        self._on_delivered()

    def _insert_or_take_apart(self, batch: Batch, bodies: list[QueuedBody]) -> list[Quarantined]:
        """Insert a batch, in parts if it is refused; return the refused records."""
        patience = UNKNOWN_SECONDS_OF_FEW if are_few(bodies) else UNKNOWN_SECONDS
        while True:
            try:
                self._insert(batch.kind, bodies, batch.token, patience)
            except (PermanentError, TooMuchAtOnceError, UnknownRefusalError) as error:
                log.warning("batch_refused", kind=batch.kind, batch=batch.id, reason=error.message)
                is_unknown = isinstance(error, UnknownRefusalError)
            else:
                return []
            try:
                refused = insert_in_parts(
                    bodies,
                    token=batch.token,
                    insert=lambda part, token: self._insert(batch.kind, part, token, 0.0),
                    not_stored=partial(self._not_stored, batch.kind),
                )
            except NothingPassesError as error:
                self._metrics.unknown.labels(batch.kind, "store").inc()
                log.error("store_refuses_everything", kind=batch.kind, reason=error.reason)
                continue
            if is_unknown:
                self._metrics.unknown.labels(batch.kind, "records").inc()
            if refused:
                log.warning(
                    "records_quarantined",
                    kind=batch.kind,
                    records=sum(each.records for each in refused),
                    reason=refused[0].reason,
                )
            return refused

    def _not_stored(self, kind: Kind, bodies: Sequence[QueuedBody]) -> list[QueuedBody]:
        """Return the bodies without those that an earlier attempt has stored.

        An attempt without an answer may have stored them under its token; parts have other tokens.

        Raises:
            StoreUnavailableError: any failure, so that nothing is inserted under other tokens.
        """
        if kind not in self._unsure:
            return list(bodies)
        try:
            left = self._store.without_stored(kind, bodies)
        except CollectorError as error:
            raise _not_looked_up(error) from error
        if len(left) < len(bodies):
            log.warning("refused_batch_was_stored", kind=kind, bodies=len(bodies) - len(left))
        return left

    def _prepare_store(self) -> None:
        """Create a missing schema; its failures are never blamed on the data."""
        try:
            self._prepare()
        except CollectorError as error:
            if isinstance(error, RetryableError) and not isinstance(error, UnknownRefusalError):
                raise
            raise StoreUnavailableError(f"the store cannot be prepared: {error.message}") from error

    def _insert(
        self, kind: Kind, bodies: Sequence[QueuedBody], token: str, patience: float
    ) -> None:
        """Insert with retries until stored, stopped or refused for the content.

        A refusal of unknown cause is raised after `patience` seconds.
        """
        backoff = FIRST_BACKOFF
        refusals = 0
        is_repeated = kind in self._unsure
        unknown: float | None = None
        """Time since which the store has only refused for an unknown reason."""
        while True:
            started = time.perf_counter()
            try:
                self._prepare_store()
                failpoints.here("before_insert")
                self._store.insert(kind, bodies, token=token)
                failpoints.here("after_insert")
                if is_repeated:
                    self._insert_forgotten(kind, bodies, token)
                self._unsure.discard(kind)
            except (PermanentError, TooMuchAtOnceError) as error:
                is_repeated = True
                # Retry: a failing disk can look like bad data, and memory may be short only briefly.
                if self._stop.is_set():
                    raise StoreUnavailableError("stopped while the store refused") from error
                if refusals == _most_refusals(bodies, error):
                    raise
                refusals += 1
                self._metrics.retries.labels(kind).inc()
                self._stop.wait(min(LAST_BACKOFF, FIRST_BACKOFF * refusals))
            except RetryableError as error:
                is_repeated = True
                if not isinstance(error, UnknownRefusalError):
                    unknown = None
                    self._unsure.add(kind)
                elif unknown is None:
                    unknown = started
                elif time.perf_counter() - unknown >= patience and not self._stop.is_set():
                    raise
                self._metrics.retries.labels(kind).inc()
                log.warning("insert_retried", kind=kind, token=token, reason=error.message)
                if self._stop.wait(backoff * random.uniform(0.5, 1.0)):  # noqa: S311
                    raise StoreUnavailableError("stopped while the store refused") from error
                backoff = min(LAST_BACKOFF, backoff * 2)
            else:
                ended = time.perf_counter()
                self._paces[kind].insert_ended(began=started, ended=ended)
                self._metrics.seconds.labels(kind).observe(ended - started)
                return

    def _insert_forgotten(self, kind: Kind, bodies: Sequence[QueuedBody], token: str) -> None:
        """Insert bodies that a repeated insert skipped as duplicates although no row is stored.

        The engine records a part's token before it commits the part: after a kill or a full disk in
        between, the next attempt is dropped as a duplicate of rows that do not exist.

        Raises:
            StoreUnavailableError: any failure. It must not look like refused content: inserting in parts
                under other tokens would duplicate the rows that are stored.
        """
        try:
            if forgotten := self._store.missing(kind, bodies):
                log.error("insert_was_forgotten", kind=kind, token=token, bodies=len(forgotten))
                self._metrics.forgotten.labels(kind).inc(sum(body.records for body in forgotten))
                # A new token each time: the lookup has just shown that the rows are missing.
                self._store.insert(kind, forgotten, token=f"{token}~{secrets.token_hex(8)}")
        except CollectorError as error:
            raise _not_looked_up(error) from error


def _not_looked_up(error: CollectorError) -> StoreUnavailableError:
    return StoreUnavailableError(f"what is stored could not be looked up: {error.message}")


def _most_refusals(bodies: Sequence[QueuedBody], error: CollectorError) -> int:
    """Return how often an insert is retried before it is split or quarantined."""
    alone = len(bodies) == 1 and bodies[0].records == 1
    return REFUSALS_ALONE if alone and isinstance(error, TooMuchAtOnceError) else REFUSALS
