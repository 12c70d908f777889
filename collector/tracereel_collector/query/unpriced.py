"""How many model calls have no cost for want of a price, read now and then so that asking is free."""

import threading
import time
from collections.abc import Callable

from tracereel_collector.errors import CollectorError
from tracereel_collector.query.replay import Selects
from tracereel_collector.store.sql import query
from tracereel_collector.store.tab_separated import rows_of

REFRESH_SECONDS = 5.0
MAX_LABEL = 128
"""Longest model name shown."""


class UnpricedModels:
    """The last reading at once; one that has grown old is replaced in the background."""

    def __init__(self, store: Selects, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = False
        self._read_at = float("-inf")
        self._last: list[tuple[str, int]] = []

    def by_model(self) -> list[tuple[str, int]]:
        """Model and calls, the most called first."""
        with self._lock:
            stale = not self._reading and self._clock() - self._read_at > REFRESH_SECONDS
            if stale:
                self._reading = True
            last = self._last
        if stale:
            threading.Thread(target=self._read, name="unpriced-models", daemon=True).start()
        return last

    def _read(self) -> None:
        found = None
        try:
            answer = self._store.select(query("unpriced_models"), {}, fmt="TabSeparated")
            found = [(model[:MAX_LABEL], int(calls)) for model, calls in rows_of(answer)]
        except CollectorError:
            pass  # the store is away: the last reading stands, and a later request tries again
        with self._lock:
            self._last = found if found is not None else self._last
            self._read_at = self._clock()
            self._reading = False
