"""The composition root: makes the parts, joins them, starts and stops them in order."""

import asyncio
import threading
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from tracereel_collector.api.build import build_api
from tracereel_collector.api.parts import DeliveryNotice, Parts, QueryThreads
from tracereel_collector.auth import Keyring
from tracereel_collector.config import Settings
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.model import Body, Kind, Receipt
from tracereel_collector.query.replay import Replay
from tracereel_collector.query.unpriced import UnpricedModels
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.prices import Price, known_prices, load_prices
from tracereel_collector.telemetry import (
    DeliveryMetrics,
    HttpMetrics,
    QueueMetrics,
    UnpricedModelMetric,
)

log = structlog.get_logger(__name__)

QUERY_THREADS = 8


@dataclass(frozen=True, slots=True)
class _AsyncQueue:
    """The queue's append for coroutines."""

    queue: DurableQueue

    async def append(self, body: Body, /) -> Receipt:
        return await asyncio.wrap_future(self.queue.append(body))


class _Preparation:
    """Makes database and schema once, whenever the store first answers."""

    def __init__(self, store: ClickHouseStore, prices: list[Price]) -> None:
        self._store = store
        self._prices = prices
        self._lock = threading.Lock()
        self._done = False

    def __call__(self) -> None:
        with self._lock:
            if not self._done:
                self._store.prepare()
                for migration in migrate(self._store):
                    log.info("migration_applied", number=migration.number, name=migration.name)
                if load_prices(self._store, self._prices):
                    log.info("prices_loaded", rows=len(self._prices))
                self._done = True


class Collector:
    """A whole collector in this process, with its engine as a child where the store is embedded."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keyring = Keyring.parse(settings.api_keys, host=settings.host)
        self._engine: Supervisor | None = None
        self._queue: DurableQueue | None = None
        self._store: ClickHouseStore | None = None
        self._worker: DeliveryWorker | None = None
        self._queries = QueryThreads(threads=QUERY_THREADS)

    def start(self) -> FastAPI:
        """Bring everything up and return the application to serve.

        Raises:
            StartupError: something is in the way; the message says what.
        """
        settings = self._settings
        prices = known_prices(Path(settings.price_file) if settings.price_file else None)
        queue = self._queue = DurableQueue(
            settings.data_dir / "queue" / "queue.sqlite",
            QueueLimits(
                commit_bytes=settings.commit_bytes,
                max_pending_bytes=settings.max_pending_bytes,
                retain_seconds=settings.retain_seconds,
            ),
        )
        if queue.damaged_files:
            log.error(
                "queue_was_damaged",
                kept_as=[file.name for file in queue.damaged_files],
                bodies_rescued=queue.rescued_bodies,
            )
        store = self._store = ClickHouseStore(
            self._store_address(),
            query_seconds=settings.query_seconds,
            query_memory_bytes=settings.query_memory_bytes,
            max_clients=QUERY_THREADS + len(Kind) + 1,
        )
        prepare = _Preparation(store, prices)
        try:
            prepare()
        except StoreUnavailableError as error:
            # Ingest does not need the store: it goes on, and delivery prepares it when it is back.
            log.warning("store_unavailable", reason=error.message)
        registry = _new_registry()
        delivered = DeliveryNotice()
        self._worker = DeliveryWorker(
            queue,
            store,
            BatchLimits(
                max_records=settings.batch_records,
                max_bytes=settings.batch_bytes,
                linger_seconds=settings.linger_seconds,
            ),
            metrics=DeliveryMetrics.register(registry),
            prepare=prepare,
            on_delivered=delivered.notify,
        )
        registry.register(
            QueueMetrics(queue.counters, lambda: queue.pending_bytes, self._engine_restarts)
        )
        registry.register(UnpricedModelMetric(UnpricedModels(store).by_model))
        self._worker.start()
        return build_api(
            Parts(
                keyring=self._keyring,
                bodies=BodyReader(
                    max_body_bytes=settings.max_body_bytes,
                    max_inflight_bytes=settings.max_inflight_bytes,
                ),
                accept=Accept(
                    _AsyncQueue(queue),
                    max_event_bytes=settings.max_event_bytes,
                    now_unix_nano=time.time_ns,
                ),
                queue=queue,
                delivered=delivered,
                replay=Replay(store),
                queries=self._queries,
                store_answers=store.ping,
                store_state=self._store_state,
                registry=registry,
                http_metrics=HttpMetrics.register(registry),
                version=version("tracereel"),
            )
        )

    def stop(self) -> None:
        """Stop in the order data flows; safe at any stage of start, and safe to call twice."""
        if self._worker is not None:
            self._worker.stop(timeout=self._settings.stop_seconds)
        if self._queue is not None:
            self._queue.close()
        self._queries.close()
        if self._store is not None:
            self._store.close()
        if self._engine is not None:
            self._engine.stop()

    def _store_address(self) -> StoreAddress:
        if self._settings.store != "embedded":
            return StoreAddress.parse(self._settings.store)
        engine = self._engine = start_engine(self._settings)
        return StoreAddress(
            host=engine.host,
            port=engine.port,
            username="tracereel",
            password=engine.secret,
            database="tracereel",
        )

    def _engine_restarts(self) -> int:
        return self._engine.restarts if self._engine is not None else 0

    def _store_state(self) -> dict[str, Any]:
        if self._engine is None:
            return {"kind": "clickhouse"}
        return {
            "kind": "embedded",
            "address": f"{self._engine.host}:{self._engine.port}",
            "engine": self._engine.state,
            "restarts": self._engine.restarts,
        }


def start_engine(settings: Settings) -> Supervisor:
    """The embedded engine, started and answering.

    Raises:
        StartupError: it cannot start, or somebody else holds its directory.
    """
    engine = Supervisor(
        EngineSettings(store_dir=settings.data_dir / "store"),
        on_event=lambda name, fields: log.info(name, **fields),
    )
    try:
        engine.start()
    except BaseException:
        engine.stop()
        raise
    return engine


def _new_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
