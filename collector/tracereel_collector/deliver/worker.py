"""The one place that delivers: a thread that seals batches, inserts them and writes down that it did."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import structlog

from tracereel_collector import crash
from tracereel_collector.deliver.pace import Pace
from tracereel_collector.deliver.poison import NothingPassesError, are_few, insert_what_can_be
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
from tracereel_collector.telemetry import DeliveryMetrics, name_thread

log = structlog.get_logger(__name__)

FIRST_BACKOFF, LAST_BACKOFF = 0.1, 10.0
IDLE_SECONDS = 0.5
REFUSALS = 2
REFUSALS_ALONE = 20
"""For a single record that memory is short for: some twenty seconds, then the next may go on."""
UNKNOWN_SECONDS, UNKNOWN_SECONDS_OF_FEW = 60.0, 600.0
"""How long a batch is refused for an unknown reason before it is taken apart. Of a few records there are
no others to tell by whether it is them or the store: those are given more time."""
OTLP_KINDS = frozenset({Kind.SPANS, Kind.LOGS, Kind.METRICS})


class Stores(Protocol):
    """What delivery needs of the store."""

    def insert(self, kind: Kind, bodies: Sequence[QueuedBody], /, *, token: str) -> None:
        """Store bodies once per token; raises PermanentError for their content, else retryable."""
        ...


class OnBatch(Protocol):
    """Who is told of every batch that is done."""

    def __call__(self, batch: Batch, /, *, stored: int, seconds: float) -> None:
        """So much of it is stored, and it took so long, all tries included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch grows, and how long it waits to."""

    max_records: int
    max_bytes: int
    linger_seconds: float

    def bytes_of(self, kind: Kind) -> int:
        """Most bytes of a kind: the engine holds an OTLP request several times as large as it came."""
        return self.max_bytes // 2 if kind in OTLP_KINDS else self.max_bytes


class DeliveryWorker:
    """Moves batches from the queue to the store until stopped; what is unfinished stays queued."""

    def __init__(
        self,
        queue: DurableQueue,
        store: Stores,
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
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(kind,), name=f"deliver-{kind}", daemon=True)
            for kind in Kind
        ]

    def start(self) -> None:
        """Begin to deliver."""
        for thread in self._threads:
            thread.start()

    def stop(self, *, timeout: float) -> None:
        """Stop after the insert under way; safe without start and safe to call twice."""
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
                # From an insert only when stopping: the batch keeps its token for the next start.
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
        with self._writing() as may_write:
            sealed = time.perf_counter()
            if may_write and (batch := self._next_batch(kind)) is not None:
                self._deliver(batch)
                more_waits = self._queue.wait_for_bytes(kind, 1, timeout=0.0) > 0
                pace.batch_ended(batch.records, sealed=sealed, more_waits=more_waits)

    def settle(self) -> None:
        """Deliver in this thread what is sealed; afterwards it is known of every batch where it is."""
        for kind in Kind:
            while self._queue.has_open_batch(kind):
                if (batch := self._next_batch(kind)) is not None:
                    self._deliver(batch)

    def _writing(self) -> AbstractContextManager[bool]:
        """From the sealing of a batch until it is done: a backup finds none in between."""
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
        crash.here("before_done")
        self._queue.done(batch, stored=stored, quarantined=refused)
        crash.here("after_done")
        if self._on_batch is not None:
            self._on_batch(batch, stored=stored, seconds=time.perf_counter() - started)
        self._on_delivered()

    def _insert_or_take_apart(self, batch: Batch, bodies: list[QueuedBody]) -> list[Quarantined]:
        """Store all of it but what the store refuses by itself; that is given back."""
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
                refused = insert_what_can_be(
                    bodies,
                    token=batch.token,
                    insert=lambda part, token: self._insert(batch.kind, part, token, 0.0),
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

    def _prepare_store(self) -> None:
        """Make the schema where it is missing; whatever goes wrong there says nothing of the data."""
        try:
            self._prepare()
        except CollectorError as error:
            if isinstance(error, RetryableError) and not isinstance(error, UnknownRefusalError):
                raise
            raise StoreUnavailableError(f"the store cannot be prepared: {error.message}") from error

    def _insert(
        self, kind: Kind, bodies: Sequence[QueuedBody], token: str, patience: float
    ) -> None:
        """Insert, however long the store is away; only a stop or refused content ends the tries.

        A refusal of which it is not known whether it is for the content ends them after so many
        seconds.
        """
        backoff = FIRST_BACKOFF
        refusals = 0
        unknown: float | None = None
        """Since when the store refuses for an unknown reason, and nothing else."""
        while True:
            started = time.perf_counter()
            try:
                self._prepare_store()
                crash.here("before_insert")
                self._store.insert(kind, bodies, token=token)
                crash.here("after_insert")
            except (PermanentError, TooMuchAtOnceError) as error:
                # A sick disk can look like bad data, and memory may be short for a moment only.
                if self._stop.is_set():
                    raise StoreUnavailableError("stopped while the store refused") from error
                if refusals == _patience(bodies, error):
                    raise
                refusals += 1
                self._metrics.retries.labels(kind).inc()
                self._stop.wait(min(LAST_BACKOFF, FIRST_BACKOFF * refusals))
            except RetryableError as error:
                if not isinstance(error, UnknownRefusalError):
                    unknown = None
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


def _patience(bodies: Sequence[QueuedBody], error: CollectorError) -> int:
    """How often the same insert is tried again before it is taken apart or set aside."""
    alone = len(bodies) == 1 and bodies[0].records == 1
    return REFUSALS_ALONE if alone and isinstance(error, TooMuchAtOnceError) else REFUSALS
