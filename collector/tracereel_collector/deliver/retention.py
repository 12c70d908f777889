"""Removes what is older than its tenant keeps it: after every midnight, and when a rule changes."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime

import structlog

from tracereel_collector.errors import UnavailableError
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.rounds import Rounds
from tracereel_collector.store.retention import (
    Expired,
    Keeps,
    Limits,
    Rule,
    delete_rows,
    drop_partitions,
    expired,
    rules_of,
    whole_partitions,
)
from tracereel_collector.telemetry import RetentionMetrics

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 20.0
_Seen = tuple[date, tuple[Rule, ...]]


class RetentionWorker:
    """A thread that looks now and then; a day that was done is not looked at again."""

    def __init__(
        self,
        store: Keeps,
        queue: DurableQueue,
        writers: StoreWriters,
        *,
        default_days: int,
        every_seconds: float,
        metrics: RetentionMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._queue = queue
        self._writers = writers
        self._default_days = default_days
        self._metrics = metrics
        self._now = now
        self._done: _Seen | None = None
        self._rounds = Rounds(
            "retention",
            self.look,
            every_seconds=every_seconds,
            on_failure=metrics.sweeps.labels("failed").inc,
        )
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def look(self) -> int:
        """Remove what is too old, where that was not done today under these rules; rows removed.

        Raises:
            CollectorError: the store does not answer, or a backup is under way: later.
        """
        today = datetime.fromtimestamp(self._now(), UTC).date()
        rules = rules_of(self._store)
        seen = (today, tuple(rules))
        if seen == self._done:
            return 0
        limits = Limits.of(rules, default_days=self._default_days, today=today)
        removed = 0
        for found in expired(self._store, limits):
            if self._rounds.stopping.is_set():
                return removed
            self._remove(found)
            self._metrics.deleted.labels(found.table).inc(found.rows)
            removed += found.rows
        dropped = sum(
            self._queue.drop_old_quarantined(
                _midnight_unix_nano(day), frozenset(tenants), are_meant=are_meant
            )
            for day, tenants, are_meant in limits.groups()
        )
        self._done = seen
        self._metrics.sweeps.labels("done").inc()
        if removed or dropped:
            log.info("retention_done", rows=removed, quarantined=dropped, day=str(today))
        return removed

    def _remove(self, found: Expired) -> None:
        whole: list[str] = []
        if whole_partitions(self._store, found):
            # What came late may be about to be stored there: only when nobody writes, look and drop.
            with self._writers.paused(timeout=PAUSE_SECONDS):
                if whole := whole_partitions(self._store, found):
                    drop_partitions(self._store, found, whole)
        rest = [partition for partition in found.partitions if partition not in whole]
        if not rest:
            return
        with self._writers.writing(timeout=PAUSE_SECONDS, stop=self._rounds.stopping) as may_write:
            if not may_write:
                raise UnavailableError("a backup is being made")
            with self._writers.removing(timeout=PAUSE_SECONDS) as may_remove:
                if not may_remove:
                    raise UnavailableError("sums are being filled in")
                delete_rows(self._store, found, rest)


def _midnight_unix_nano(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**9
