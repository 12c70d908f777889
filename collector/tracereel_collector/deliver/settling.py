"""Settling worker: corrects the sums of traces soon after they have new rows."""

import time

import structlog

from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime.periodic_task import PeriodicTask
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.settling import MAX_SPANS, UnsettledTrace, batches, settle, unsettled
from tracereel_collector.telemetry import SettlingMetrics

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
IDLE_LOOK_SECONDS = 30.0
"""Time between rounds while this collector delivers nothing and is in no group."""
MAX_LOOKED_AT = 5_000
"""Maximum traces of one round; the others follow in the next."""
_REST = 10
"""Rest after a round, as a multiple of its time, so that it takes a tenth of a core at most."""
_MUCH = 10
"""A trace that grows is settled again when it has grown by one part of so many, or has stopped."""
_PATIENCE = 5
"""Rounds to wait for rows of an insert that is under way."""
PAUSE_SECONDS = 20.0


class SettlingWorker:
    """Periodic thread of the one process that delivers; in a group each member has its share."""

    def __init__(
        self,
        store: ClickHouseStore,
        writers: StoreWriters | None = None,
        *,
        metrics: SettlingMetrics,
        member: int = 0,
        members: int = 1,
    ) -> None:
        self._store = store
        self._writers = writers
        self._metrics = metrics
        for outcome in ("settled", "too_long"):
            metrics.traces.labels(outcome)  # rates need a zero to start from
        self._share = {"member": member, "members": members}
        self._deliveries = 0
        self._settled_deliveries = -1
        """Deliveries that a round had before it when it found nothing to settle."""
        self._looked_at = 0.0
        self._unchanged: dict[tuple[str, str], tuple[int, int]] = {}
        """Records of each unsettled trace, and for how many rounds they have been as many."""
        self._rest_until = 0.0
        self._rounds = PeriodicTask(
            "settling",
            self._look_if_rested,
            every_seconds=LOOK_SECONDS,
            on_failure=metrics.traces.labels("failed").inc,
        )
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def note_delivery(self) -> None:
        """Look for traces in the next round: rows were delivered."""
        self._deliveries += 1

    def _look_if_rested(self) -> None:
        began = time.monotonic()
        # What other members of a group deliver is not noted here.
        is_idle = self._settled_deliveries == self._deliveries and self._share["members"] == 1
        if began < max(self._rest_until, self._looked_at + IDLE_LOOK_SECONDS * is_idle):
            return
        try:
            self.look()
        finally:
            ended = time.monotonic()
            self._rest_until = ended + _REST * (ended - began)

    def look(self) -> int:
        """Settle the traces that are due; return how many were.

        Raises:
            CollectorError: the store is unavailable; repeated later.
        """
        deliveries, self._looked_at = self._deliveries, time.monotonic()
        found = unsettled(self._store, limit=MAX_LOOKED_AT, **self._share)
        if not found:
            self._settled_deliveries = deliveries
        self._unchanged = {_key(each): self._rounds_unchanged(each) for each in found}
        due = [each for each in found if _has_grown(each) or self._unchanged[_key(each)][1]]
        done = 0
        for patient in (True, False):
            chosen = [
                each for each in due if (self._unchanged[_key(each)][1] < _PATIENCE) == patient
            ]
            for batch in batches(chosen):
                if self._rounds.stopping.is_set():
                    return done
                done += self._settle(batch, patient=patient)
        self._metrics.waiting.set(len(found) - done)
        return done

    def _rounds_unchanged(self, trace: UnsettledTrace) -> tuple[int, int]:
        records, rounds = self._unchanged.get(_key(trace), (-1, 0))
        return trace.records, rounds + 1 if records == trace.records else 0

    def _settle(self, batch: list[UnsettledTrace], *, patient: bool) -> int:
        if self._writers is None:
            done = settle(self._store, batch, patient=patient)
        else:
            with self._writers.writing(
                timeout=PAUSE_SECONDS, stop=self._rounds.stopping
            ) as may_write:
                done = settle(self._store, batch, patient=patient) if may_write else 0
        too_long = sum(each.records > MAX_SPANS for each in batch)
        self._metrics.traces.labels("settled").inc(done - min(done, too_long))
        if too_long:
            self._metrics.traces.labels("too_long").inc(too_long)
            log.warning("traces_too_long_to_settle", traces=too_long, most=MAX_SPANS)
        return done


def _key(trace: UnsettledTrace) -> tuple[str, str]:
    return trace.tenant, trace.trace


def _has_grown(trace: UnsettledTrace) -> bool:
    """Return whether a trace has grown so much that it need not stop growing to be settled."""
    return abs(trace.records - trace.known) * _MUCH >= trace.records
