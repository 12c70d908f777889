"""Prepares database, schema and prices once, when the store is first available."""

import threading

import structlog

from tracereel_collector.errors import CollectorError
from tracereel_collector.queue import DurableQueue
from tracereel_collector.startup.schema import prepare_schema
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.price_names import find_prices
from tracereel_collector.store.prices import KnownPrices, load_prices

log = structlog.get_logger(__name__)


class Preparation:
    """One-time preparation of the store; later calls do nothing."""

    def __init__(self, store: ClickHouseStore, queue: DurableQueue, prices: KnownPrices) -> None:
        self._store = store
        self._queue = queue
        self._prices = prices
        self._lock = threading.Lock()
        self._done = False
        self.problem = "the store has not answered yet"
        """Why the store cannot be used yet; empty once it is prepared."""

    def __call__(self) -> None:
        """Prepare the store.

        Raises:
            StartupError: the store refuses the schema, or has that of another version.
            StoreUnavailableError: the store is unavailable.
        """
        with self._lock:
            if self._done:
                return
            try:
                self._prepare()
            except CollectorError as error:
                hint = f" ({error.hint})" if error.hint else ""
                self.problem = f"{error.message}{hint}"
                raise
            self._done = True
            self.problem = ""

    def _prepare(self) -> None:
        applied = prepare_schema(self._store)
        self._queue.number_after(self._store.highest_number())
        loaded = load_prices(self._store, self._prices)
        find_prices(self._store)
        if applied or loaded:
            log.info(
                "store_prepared",
                migrations=len(applied),
                schema=applied[-1].number if applied else None,
                prices=self._prices.version if loaded else None,
            )
