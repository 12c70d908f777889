"""Retention worker: deletes expired rows after every midnight and when a rule changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import structlog

from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.runtime.periodic_task import PeriodicTask
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.retention import (
    Expired,
    Limits,
    RetentionPolicy,
    delete_rows,
    drop_partitions,
    expired,
    forget_emitters,
    rules_of,
    silent_emitters,
    whole_partitions,
)
from tracereel_collector.store.shards import Shards
from tracereel_collector.telemetry import RetentionMetrics

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 20.0
_Seen = tuple[date, tuple[RetentionPolicy, ...]]


class RetentionWorker:
    """Periodic thread; skips a day that was already processed under the same rules."""

    def __init__(
        self,
        store: ClickHouseStore,
        queue: DurableQueue,
        writers: StoreWriters,
        *,
        default_days: int,
        every_seconds: float,
        metrics: RetentionMetrics,
        dating: Callable[[], Dating],
    ) -> None:
        self._store = store
        self._queue = queue
        self._writers = writers
        self._default_days = default_days
        self._metrics = metrics
        self._dating = dating
        self._done: _Seen | None = None
        self._rounds = PeriodicTask(
            "retention",
            self.look,
            every_seconds=every_seconds,
            on_failure=metrics.sweeps.labels("failed").inc,
        )
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def look(self) -> int:
        """Delete expired rows unless done today under the same rules; return the number deleted.

        Raises:
            CollectorError: the store is unavailable or a backup runs; retried in the next round.
        """
        dating = self._dating()
        if not dating.is_settled:
            self._metrics.sweeps.labels("clock").inc()
            return 0
        today = dating.today
        rules = rules_of(self._store)
        seen = (today, tuple(rules))
        if seen == self._done:
            return 0
        limits = Limits.of(rules, default_days=self._default_days, today=today)
        removed = 0
        for found in expired(self._store, limits, dating):
            if self._rounds.stopping.is_set():
                return removed
            self._remove(found)
            self._metrics.deleted.labels(found.table).inc(found.rows)
            removed += found.rows
        for table, tenant, ids in silent_emitters(self._store, dating):
            with self._may_delete():
                forget_emitters(self._store, table, tenant, ids)
        dropped = sum(
            self._queue.quarantine.drop_old(
                _midnight_unix_nano(day),
                frozenset(tenants),
                are_meant=are_meant,
                kept=[_span_unix_nano(*days) for days in dating.kept_days(day)],
            )
            for day, tenants, are_meant in limits.groups()
        )
        self._done = seen
        self._metrics.sweeps.labels("done").inc()
        if removed or dropped:
            waiting = Shards.of(self._store).unfinished()
            log.info(
                "retention_done",
                rows=removed,
                quarantined=dropped,
                day=str(today),
                # They delete the rows when they are back.
                **({"waiting_for": waiting} if waiting else {}),
            )
        return removed

    def _remove(self, found: Expired) -> None:
        whole: list[str] = []
        if whole_partitions(self._store, found):
            # A late record may be inserted into the partition: check again and drop while writers pause.
            with self._writers.paused(timeout=PAUSE_SECONDS):
                if whole := whole_partitions(self._store, found):
                    drop_partitions(found, whole)
        rest = [partition for partition in found.partitions if partition not in whole]
        if not rest:
            return
        with self._may_delete():
            delete_rows(found, rest)

    @contextmanager
    def _may_delete(self) -> Iterator[None]:
        """Allow deletes within the block, while no backup runs."""
        with self._writers.writing(timeout=PAUSE_SECONDS, stop=self._rounds.stopping) as may_write:
            if not may_write:
                raise ServiceUnavailableError("a backup is being made")
            yield


def _span_unix_nano(first: date, last: date) -> tuple[int, int]:
    return _midnight_unix_nano(first), _midnight_unix_nano(last + timedelta(days=1))


def _midnight_unix_nano(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**9
