"""Fills in, behind everything else, what older versions did not sum up when they stored it."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime

import structlog

from tracereel_collector.errors import CollectorError, UnavailableError
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.rounds import Rounds
from tracereel_collector.store.backfill import ALL, SLICE_ROWS, Backfill, Fills, on_cluster

log = structlog.get_logger(__name__)

EVERY_SECONDS = 20.0
PAUSE_SECONDS = 20.0
_LEAST_ROWS = 1_000


class BackfillWorker:
    """A thread that looks after each midnight, and goes on where it was when it was interrupted."""

    def __init__(
        self,
        store: Fills,
        writers: StoreWriters,
        *,
        every_seconds: float = EVERY_SECONDS,
        slice_rows: int = SLICE_ROWS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._writers = writers
        self._slice_rows = slice_rows
        self._now = now
        self._looked: date | None = None
        self._rounds = Rounds("backfill", self.look, every_seconds=every_seconds)
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def look(self) -> int:
        """Fill in what is missing, where that was not done today; how many parts were looked at.

        Raises:
            CollectorError: the store does not answer, or a backup is under way: later.
        """
        today = datetime.fromtimestamp(self._now(), UTC).date()
        if today == self._looked:
            return 0
        done = noted = 0
        for column in () if on_cluster(self._store) else ALL:
            for part, rows in column.missing(self._store).items():
                if not self._fill(column, part, rows):
                    return done
                # More may come today, and what came a moment ago is perhaps not summed up yet.
                if part.split()[-1] < str(today):
                    column.note(self._store, part)
                    noted += 1
                done += 1
        self._looked = today
        if noted:
            log.info("backfill_done", parts=noted)
        return done

    def _fill(self, column: Backfill, part: str, rows: int) -> bool:
        """Whether it came to its end before the collector is to stop."""
        for chosen in column.slices(part, rows, slice_rows=self._slice_rows):
            if self._rounds.stopping.is_set():
                return False
            stop = self._rounds.stopping
            with (
                self._writers.writing(timeout=PAUSE_SECONDS, stop=stop) as may_write,
                self._writers.filling(timeout=PAUSE_SECONDS, stop=stop) as may_fill,
            ):
                if not (may_write and may_fill):
                    raise UnavailableError("a backup is being made, or rows are being removed")
                try:
                    column.fill(self._store, chosen)
                except CollectorError:
                    # Should it have been too much at once, the next try is a smaller one.
                    self._slice_rows = max(_LEAST_ROWS, self._slice_rows // 2)
                    raise
        return True
