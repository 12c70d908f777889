"""Composition root: creates the collector's components and starts and stops them in order."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from starlette.types import ASGIApp

from tracereel_collector.auth.administration import Administration
from tracereel_collector.auth.assembly import AccessControl
from tracereel_collector.auth.origins import parse_origins
from tracereel_collector.config import Settings
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.deliver.retention import RetentionWorker
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.http.build import build_api
from tracereel_collector.http.connections import ConnectionLimits, allow_open_files
from tracereel_collector.http.dependencies import DeliveryNotice, Parts, Playbacks, QueryThreads
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.ingest.otlp_limits import OtlpLimits
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.live.hub import LiveTail, TailLimits
from tracereel_collector.live.records import SHOWN
from tracereel_collector.model import Body, Kind, Receipt
from tracereel_collector.ops.alerts.watch import Watcher
from tracereel_collector.ops.alerts.webhook import Webhook
from tracereel_collector.otlp_out.forward.forwarder import Forwarder, new_forwarder
from tracereel_collector.otlp_out.forward.target import forward_target
from tracereel_collector.otlp_out.observe.build import SelfObservation, own_id_of, self_observation
from tracereel_collector.query.agent_health import AgentsLately
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.completeness import CompletenessQuery
from tracereel_collector.query.diff import Comparison
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.query.export import Export, export_slots
from tracereel_collector.query.jaeger.reader import Jaeger
from tracereel_collector.query.replay import ReplayQuery
from tracereel_collector.query.replayable import ReplayableRun
from tracereel_collector.query.retention import Retention
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.scores import Scores
from tracereel_collector.query.search import Search
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.tape import Tapes
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.unpriced import UnpricedModels
from tracereel_collector.query.user_sql import PeoplesSql, SqlLimits
from tracereel_collector.query.user_sql.catalogue import Catalogues
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime.clock.metrics import ClockMetrics
from tracereel_collector.runtime.clock.trusted import TICK_SECONDS
from tracereel_collector.runtime.periodic_task import Rounds
from tracereel_collector.runtime.tenant_shares import SharePolicy, TenantShares
from tracereel_collector.runtime.wakeup_pipes import WakeupPipe, hurried
from tracereel_collector.runtime.wakeup_pipes import listen as listen_to
from tracereel_collector.startup.data_dir import (
    QUEUE_FILE,
    clock_of,
    engine_address,
    queue_limits,
    start_engine,
)
from tracereel_collector.startup.preparation import Preparation
from tracereel_collector.startup.worker_bootstrap import Link
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.prices import known_prices
from tracereel_collector.store.user_sql import PeoplesStore
from tracereel_collector.telemetry import (
    AlertMetrics,
    DeliveryMetrics,
    HttpMetrics,
    OtlpMetrics,
    PressureMetrics,
    QueueMetrics,
    RetentionMetrics,
    SessionMetrics,
    SharedMetrics,
    TailMetrics,
    ThrottleMetrics,
    UnpricedModelMetric,
)

log = structlog.get_logger(__name__)

QUERY_THREADS = 8
QUERY_WAIT_SECONDS = 60.0
"""Longest wait for a free query thread."""
FORWARD_STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class _AsyncQueue:
    """Coroutine interface to the queue's append."""

    queue: DurableQueue

    async def append(self, body: Body, /) -> Receipt:
        return await asyncio.wrap_future(self.queue.append(body))


class Collector:
    """Complete collector in this process; an embedded store runs as a child process."""

    def __init__(
        self, settings: Settings, *, link: Link | None = None, shared: bool = False
    ) -> None:
        self._settings = settings
        self._link = link
        self._shared = shared
        self._delivered = DeliveryNotice()
        self._bells: list[WakeupPipe] = []
        self._engine: Supervisor | None = None
        self._queue: DurableQueue | None = None
        self._store: ClickHouseStore | None = None
        self._worker: DeliveryWorker | None = None
        self._tail: LiveTail | None = None
        self._forwarder: Forwarder | None = None
        self._watcher: Watcher | None = None
        self._retention: RetentionWorker | None = None
        self._itself: SelfObservation | None = None
        self.store_address: StoreAddress
        self.parts: Parts
        # With several workers, /metrics merges the shared metric files of all processes.
        self._registry = CollectorRegistry() if link is not None else _new_registry()
        self._shown = CollectorRegistry() if link is not None else self._registry
        self._writers = StoreWriters((settings.data_dir / QUEUE_FILE).parent)
        self._clock = clock_of(settings, is_owner=link is None)
        self._clock_rounds = Rounds("clock", self._clock.tick, every_seconds=TICK_SECONDS)
        self._access = AccessControl.build(
            settings, self._registry, now_unix=self._clock.latest_unix
        )
        self._gate, self._audit = self._access.gate, self._access.audit
        self._shares = self._new_shares()
        self._queries = self._new_queries()

    def start(self) -> ASGIApp:
        """Start all components and return the ASGI application.

        Raises:
            StartupError: a component cannot start; the message names the cause.
        """
        if self._link is None:
            self.start_core(on_delivered=self._delivered.notify)
        else:
            self._join_core(self._link)
        return self._open_door()

    def start_core(self, *, on_delivered: Callable[[], None]) -> None:
        """Start the components that exist once: engine, queue owner, delivery.

        Raises:
            StartupError: a component cannot start; the message names the cause.
        """
        settings = self._settings
        self._clock_rounds.start()
        self._gate.check()
        forward_target(settings)
        self._observe_itself()
        webhook = Webhook(settings.alert_webhook) if settings.alert_webhook else None
        prices = known_prices(Path(settings.price_file) if settings.price_file else None)
        queue = self._queue = DurableQueue(
            settings.data_dir / QUEUE_FILE,
            queue_limits(settings),
            now_unix_nano=self._clock.unix_nano,
            steady_nano=self._clock.steady_nano,
            shared=self._shared,
            shares=self._shares,
        )
        if queue.damaged_files:
            log.error(
                "queue_was_damaged",
                kept_as=[file.name for file in queue.damaged_files],
                bodies_rescued=queue.rescued_bodies,
            )
        self.store_address = self._find_store()
        store = self._store = self._new_store()
        prepare = Preparation(store, queue, prices)
        try:
            prepare()
        except StoreUnavailableError as error:
            # Ingest does not need the store; delivery prepares it when it is available again.
            log.warning("store_unavailable", reason=error.message)
        self._worker = DeliveryWorker(
            queue,
            store,
            BatchLimits(
                max_records=settings.batch_records,
                max_bytes=self._batch_bytes(),
                linger_seconds=settings.linger_seconds,
            ),
            metrics=DeliveryMetrics.register(self._registry),
            prepare=prepare,
            on_delivered=on_delivered,
            writers=self._writers,
            on_batch=self._itself.observer.batch_done if self._itself else None,
        )
        self._worker.start()
        self._retention = RetentionWorker(
            store,
            queue,
            self._writers,
            default_days=settings.retention_days,
            every_seconds=settings.retention_seconds,
            metrics=RetentionMetrics.register(self._registry),
            dating=self._clock.dating,
        )
        self._retention.start()
        if webhook is not None:
            self._watcher = Watcher(
                queue,
                AgentsLately(store),
                webhook,
                every_seconds=settings.alert_seconds,
                sent=AlertMetrics.register(self._registry).sent,
                now=self._clock.unix,
            )
            self._watcher.start()

    def heard(self, data: bytes) -> None:
        """Wake up delivery after a worker appended to the queue."""
        if self._queue is not None:
            self._queue.heard(hurried(data))

    def _join_core(self, link: Link) -> None:
        """Connect a worker to the queue and the store of the parent process."""
        self._observe_itself()
        self._clock_rounds.start()
        bell = WakeupPipe(link.bell_fd)
        self._bells.append(bell)
        self._queue = DurableQueue(
            self._settings.data_dir / QUEUE_FILE,
            queue_limits(self._settings),
            now_unix_nano=self._clock.unix_nano,
            steady_nano=self._clock.steady_nano,
            shared=True,
            ring=bell.appended,
            shares=self._shares,
        )
        self.store_address = link.store
        self._store = self._new_store()
        SharedMetrics(self._shown, link.metrics_dir)
        listen_to(link.delivered_fd, lambda _: self._delivered.notify(), name="delivered-bell")

    def _open_door(self) -> ASGIApp:
        """Build the HTTP application on top of the queue and the store."""
        settings, queue, store = self._settings, self._queue, self._store
        assert queue is not None and store is not None  # noqa: S101, PT018 - start made them
        allow_open_files(settings.max_connections)
        self._gate.start()
        forwarder = self._forwarder = new_forwarder(
            settings, self._registry, own_id=own_id_of(settings), shares=self._shares
        )
        if forwarder is not None:
            forwarder.start()
        self._shown.register(
            QueueMetrics(queue.counters, lambda: queue.pending_bytes, self._engine_restarts)
        )
        self._shown.register(PressureMetrics(queue.pressure))
        self._shown.register(ClockMetrics(self._clock.status))
        self._shown.register(SessionMetrics(queue.session_mismatches))
        self._shown.register(UnpricedModelMetric(UnpricedModels(store).calls))
        self._tail = LiveTail(
            queue.follow(*SHOWN),
            TailLimits(
                readers=settings.tail_readers,
                readers_per_tenant=settings.tail_readers_per_tenant,
                beat_seconds=settings.tail_beat_seconds,
            ),
            TailMetrics.register(self._registry),
            self._shares,
        )
        now = self._clock.unix_nano
        search = Search(store, time.time_ns, trusted_unix_nano=now)
        reader = RunReader(store)
        traces = Traces(reader, now_unix_nano=now)
        replayable = ReplayableRun(store)
        self.parts = Parts(
            gate=self._gate,
            administration=Administration(self._access.keys, self._audit, self._clock.latest_unix),
            bodies=BodyReader(
                max_body_bytes=settings.max_body_bytes,
                max_inflight_bytes=settings.max_inflight_bytes,
                body_seconds=settings.body_seconds,
                shares=self._shares,
            ),
            accept=Accept(
                _AsyncQueue(queue),
                max_event_bytes=settings.max_event_bytes,
                now_unix_nano=now,
                redactor=Redactor(self._registry) if settings.redact == "on" else None,
                metrics=OtlpMetrics.register(self._registry),
                forward=forwarder,
                otlp_limits=OtlpLimits(
                    attributes=settings.max_attributes,
                    value_bytes=settings.max_attribute_bytes,
                    objects=settings.max_body_objects,
                ),
                working_bytes=settings.max_inflight_bytes,
                shares=self._shares,
            ),
            queue=queue,
            clock=self._clock,
            delivered=self._delivered,
            tail=self._tail,
            replay=ReplayQuery(reader, traces),
            playbacks=Playbacks(self._shares),
            traces=traces,
            completeness=CompletenessQuery(reader, traces, now_unix_nano=now),
            comparison=Comparison(traces, replayable),
            tapes=Tapes(store),
            replayable=replayable,
            emitters=Emitters(store),
            jaeger=Jaeger(store, now_unix_nano=now),
            sql=self._new_sql(store),
            scores=Scores(store),
            export=Export(store, export_slots(self._shares)),
            deletion=Deletion(queue, store, self._audit, self._writers, now_unix=self._clock.unix),
            retention=Retention(
                store,
                self._audit,
                default_days=settings.retention_days,
                dating=self._clock.dating,
            ),
            search=search,
            sessions=Sessions(store, search),
            agents=Agents(store),
            queries=self._queries,
            requests=TenantShares("requests", settings.max_connections, self._shares),
            shares=self._shares,
            store_answers=store.ping,
            store_state=self.store_state,
            registry=self._shown,
            http_metrics=HttpMetrics.register(self._registry),
            version=version("tracereel"),
            observer=self._itself.observer if self._itself else None,
            cors_origins=parse_origins(settings.cors_origins),
            public=self._access.public,
            jaeger_url=settings.jaeger_url,
            connection_limits=ConnectionLimits(
                max_connections=settings.max_connections,
                header_seconds=settings.header_seconds,
                on_refused=lambda reason: self._access.metrics.connections.labels(reason).inc(),
            ),
        )
        return build_api(self.parts)

    def stop(self) -> None:
        """Stop all components in the order of the data flow; idempotent."""
        self._clock_rounds.stop(timeout=1.0)
        if self._tail is not None:
            self._tail.close()
        if self._watcher is not None:
            self._watcher.stop(timeout=1.0)
        if self._retention is not None:
            self._retention.stop(timeout=1.0)
        if self._worker is not None:
            self._worker.stop(timeout=self._settings.stop_seconds)
        if self._forwarder is not None:
            self._forwarder.stop(timeout=min(FORWARD_STOP_SECONDS, self._settings.stop_seconds))
        if self._queue is not None:
            self._queue.close()
        self._queries.close()
        self._gate.close()
        if self._store is not None:
            self._store.close()
        if self._engine is not None:
            self._engine.stop()
        for bell in self._bells:
            bell.close()
        self._clock.close()
        if self._itself is not None:
            self._itself.stop(timeout=min(FORWARD_STOP_SECONDS, self._settings.stop_seconds))

    def _observe_itself(self) -> None:
        self._itself = self_observation(self._settings, self._registry)
        if self._itself is not None:
            self._itself.start()

    def _new_shares(self) -> SharePolicy:
        refused = ThrottleMetrics.register(self._registry).refused
        return SharePolicy(
            share=self._settings.tenant_share,
            has_several_tenants=lambda: self._gate.has_several_tenants,
            on_refused=lambda resource, reason: refused.labels(resource, reason).inc(),
        )

    def _new_queries(self) -> QueryThreads:
        """Create the query threads.

        All workers query the same store, so each worker gets its part of the tenant share.
        """
        share = self._shares.share
        of_worker = share if share == 1 else share / max(1, self._settings.workers)
        return QueryThreads(
            threads=QUERY_THREADS,
            shares=replace(self._shares, share=of_worker),
            wait_seconds=QUERY_WAIT_SECONDS,
        )

    def _new_store(self) -> ClickHouseStore:
        return ClickHouseStore(
            self.store_address,
            query_seconds=self._settings.query_seconds,
            query_memory_bytes=self._settings.query_memory_bytes,
            max_clients=QUERY_THREADS + len(Kind) + 1,
        )

    def _new_sql(self, store: ClickHouseStore) -> PeoplesSql:
        settings, limits = self._settings, SqlLimits()
        return PeoplesSql(
            PeoplesStore(self.store_address, connections=limits.at_once),
            Catalogues(self.store_address.database, store.rows),
            replace(
                limits,
                seconds=min(limits.seconds, settings.query_seconds),
                memory_bytes=min(limits.memory_bytes, settings.query_memory_bytes),
            ),
            self._shares,
        )

    def _batch_bytes(self) -> int:
        """Return the most bytes of one insert; an embedded store with little memory takes less."""
        wanted = self._settings.batch_bytes
        return wanted if self._engine is None else min(wanted, self._engine.settings.insert_bytes)

    def _find_store(self) -> StoreAddress:
        if self._settings.store != "embedded":
            return StoreAddress.parse(self._settings.store)
        self._engine = start_engine(self._settings, on_event=_told_by_engine)
        return engine_address(self._engine)

    def _engine_restarts(self) -> int:
        return int(self.store_state().get("restarts", 0))

    def store_state(self) -> dict[str, Any]:
        """Return the state of the store without querying it."""
        if self._link is not None:
            return _read_state(Path(self._link.state_file))
        if self._engine is None:
            return {"kind": "clickhouse"}
        return {
            "kind": "embedded",
            "address": f"{self._engine.host}:{self._engine.port}",
            "engine": self._engine.state,
            "restarts": self._engine.restarts,
            **({"advice": self._engine.advice} if self._engine.advice else {}),
        }


def _told_by_engine(name: str, fields: Mapping[str, object]) -> None:
    """Log an engine event; planned starts and stops at debug level."""
    levels = {
        "engine.ready": log.debug,
        "engine.stopped": log.debug,
        "engine.died": log.warning,
        "engine.memory_above_limit": log.warning,
        "engine.memory_reserve_taken": log.warning,
    }
    levels.get(name, log.info)(name, **fields)


def _read_state(file: Path) -> dict[str, Any]:
    """Return the state that the parent process wrote last."""
    try:
        state: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {"kind": "unknown"}
    return state


def _new_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
