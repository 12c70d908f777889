"""Thread that looks up the prices of models soon after they are called for the first time."""

import threading
from typing import Final

from tracereel_collector.runtime.periodic_task import PeriodicTask
from tracereel_collector.store.price_names import PriceStore, find_prices

EVERY_SECONDS: Final = 1.0


class PriceNames:
    """Periodic thread that queries the store only after a delivery."""

    def __init__(self, store: PriceStore) -> None:
        self._store = store
        self._delivered = threading.Event()
        self._rounds = PeriodicTask(
            "price-names", self._look, every_seconds=EVERY_SECONDS, on_failure=self.note_delivery
        )
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def note_delivery(self) -> None:
        """Look in the next round."""
        self._delivered.set()

    def _look(self) -> None:
        if self._delivered.is_set():
            self._delivered.clear()
            find_prices(self._store)
