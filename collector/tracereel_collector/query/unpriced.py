"""Cached count of model calls without a known price."""

import threading
import time
from collections.abc import Callable

from tracereel_collector.errors import CollectorError
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query
from tracereel_collector.store.tab_separated import rows_of

REFRESH_SECONDS = 5.0


class UnpricedModels:
    """Count that is returned immediately and refreshed in the background."""

    def __init__(self, store: StoreReader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = False
        self._read_at = float("-inf")
        self._last = 0

    def calls(self) -> int:
        """Return the number of model calls of all tenants without a known price."""
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
            answer = self._store.select(query("unpriced_calls"), {}, fmt="TabSeparated")
            ((calls,),) = rows_of(answer)
            found = int(calls)
        except CollectorError:
            pass  # the store is unreachable: keep the last value, a later request retries
        with self._lock:
            self._last = found if found is not None else self._last
            self._read_at = self._clock()
            self._reading = False
