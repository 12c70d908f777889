"""The composition root: makes the parts, joins them, starts and stops them in order."""

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

from tracereel_collector.alerts.watch import Watcher
from tracereel_collector.alerts.webhook import Webhook
from tracereel_collector.api.build import build_api
from tracereel_collector.api.parts import DeliveryNotice, Parts, QueryThreads
from tracereel_collector.api.playback import Playbacks
from tracereel_collector.auth import Gate
from tracereel_collector.auth.administration import Administration
from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.gate import GateSettings
from tracereel_collector.auth.keyring import parse_static
from tracereel_collector.auth.keystore import FILE, KeyStore
from tracereel_collector.auth.limits import Rates
from tracereel_collector.auth.metrics import AccessMetrics
from tracereel_collector.auth.origins import parse_origins
from tracereel_collector.bells import Bell, hurried
from tracereel_collector.bells import listen as listen_to
from tracereel_collector.config import Settings
from tracereel_collector.connections import ConnectionLimits, allow_open_files
from tracereel_collector.data_dir import (
    QUEUE_FILE,
    engine_address,
    queue_limits,
    start_engine,
)
from tracereel_collector.deliver.backfill import BackfillWorker
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.deliver.retention import RetentionWorker
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.forward.forwarder import Forwarder, ForwardLimits
from tracereel_collector.forward.target import (
    Target,
    check_not_ourselves,
    parse_signals,
    parse_target,
)
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.ingest.otlp_limits import OtlpLimits
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.link import Link
from tracereel_collector.live.hub import LiveTail, TailLimits
from tracereel_collector.live.records import SHOWN
from tracereel_collector.model import Body, Kind, Receipt
from tracereel_collector.observe.build import SelfObservation, own_id_of, self_observation
from tracereel_collector.preparation import Preparation
from tracereel_collector.query.agent_health import AgentsLately
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.completeness import Completeness
from tracereel_collector.query.diff import Comparison
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.query.export import Export
from tracereel_collector.query.jaeger.reader import Jaeger
from tracereel_collector.query.replay import Replay
from tracereel_collector.query.replayable import Replayable
from tracereel_collector.query.retention import Retention
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.scores import Scores
from tracereel_collector.query.search import Search
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.sql import PeoplesSql, SqlLimits
from tracereel_collector.query.sql.catalogue import Catalogues
from tracereel_collector.query.tape import Tapes
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.unpriced import UnpricedModels
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.people import PeoplesStore
from tracereel_collector.store.prices import known_prices
from tracereel_collector.telemetry import (
    DeliveryMetrics,
    ForwardMetrics,
    HttpMetrics,
    OtlpMetrics,
    PressureMetrics,
    QueueMetrics,
    RetentionMetrics,
    SessionMetrics,
    SharedMetrics,
    TailMetrics,
    UnpricedModelMetric,
    alerts_sent,
)

log = structlog.get_logger(__name__)

QUERY_THREADS = 8
FORWARD_STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class _AsyncQueue:
    """The queue's append for coroutines."""

    queue: DurableQueue

    async def append(self, body: Body, /) -> Receipt:
        return await asyncio.wrap_future(self.queue.append(body))


class Collector:
    """A whole collector in this process, with its engine as a child where the store is embedded."""

    def __init__(
        self, settings: Settings, *, link: Link | None = None, shared: bool = False
    ) -> None:
        self._settings = settings
        self._link = link
        self._shared = shared
        self._delivered = DeliveryNotice()
        self._bells: list[Bell] = []
        self._engine: Supervisor | None = None
        self._queue: DurableQueue | None = None
        self._store: ClickHouseStore | None = None
        self._worker: DeliveryWorker | None = None
        self._tail: LiveTail | None = None
        self._forwarder: Forwarder | None = None
        self._watcher: Watcher | None = None
        self._retention: RetentionWorker | None = None
        self._backfill: BackfillWorker | None = None
        self._itself: SelfObservation | None = None
        self._queries = QueryThreads(threads=QUERY_THREADS)
        self.store_address: StoreAddress
        self.parts: Parts
        # With several processes, what this one counts is shown by all, out of the shared files.
        self._registry = CollectorRegistry() if link is not None else _new_registry()
        self._shown = CollectorRegistry() if link is not None else self._registry
        self._writers = StoreWriters((settings.data_dir / QUEUE_FILE).parent)
        self._keys = KeyStore(settings.data_dir / FILE)
        self._gate = self._new_gate()

    def start(self) -> ASGIApp:
        """Bring everything up and return the application to serve.

        Raises:
            StartupError: something is in the way; the message says what.
        """
        if self._link is None:
            self.start_core(on_delivered=self._delivered.notify)
        else:
            self._join_core(self._link)
        return self._open_door()

    def start_core(self, *, on_delivered: Callable[[], None]) -> None:
        """What there is one of, however many workers: engine, the queue's owner, delivery.

        Raises:
            StartupError: something is in the way; the message says what.
        """
        settings = self._settings
        self._gate.check()
        self._forward_target()
        self._observe_itself()
        webhook = Webhook(settings.alert_webhook) if settings.alert_webhook else None
        prices = known_prices(Path(settings.price_file) if settings.price_file else None)
        queue = self._queue = DurableQueue(
            settings.data_dir / QUEUE_FILE, queue_limits(settings), shared=self._shared
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
            # Ingest does not need the store: it goes on, and delivery prepares it when it is back.
            log.warning("store_unavailable", reason=error.message)
        self._worker = DeliveryWorker(
            queue,
            store,
            BatchLimits(
                max_records=settings.batch_records,
                max_bytes=settings.batch_bytes,
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
        )
        self._retention.start()
        self._backfill = BackfillWorker(store, self._writers)
        self._backfill.start()
        if webhook is not None:
            self._watcher = Watcher(
                queue,
                AgentsLately(store),
                webhook,
                every_seconds=settings.alert_seconds,
                sent=alerts_sent(self._registry),
            )
            self._watcher.start()

    def heard(self, data: bytes) -> None:
        """A worker's bell has rung: its appends are to be delivered."""
        if self._queue is not None:
            self._queue.heard(hurried(data))

    def _join_core(self, link: Link) -> None:
        """A worker's part: append to the queue that another process owns and empties."""
        self._observe_itself()
        bell = Bell(link.bell_fd)
        self._bells.append(bell)
        self._queue = DurableQueue(
            self._settings.data_dir / QUEUE_FILE,
            queue_limits(self._settings),
            shared=True,
            ring=bell.appended,
        )
        self.store_address = link.store
        self._store = self._new_store()
        SharedMetrics(self._shown, link.metrics_dir)
        listen_to(link.delivered_fd, lambda _: self._delivered.notify(), name="delivered-bell")

    def _open_door(self) -> ASGIApp:
        """The surfaces, on the queue and the store."""
        settings, queue, store = self._settings, self._queue, self._store
        assert queue is not None and store is not None  # noqa: S101, PT018 - start made them
        allow_open_files(settings.max_connections)
        self._gate.start()
        forwarder = self._forwarder = self._new_forwarder()
        if forwarder is not None:
            forwarder.start()
        self._shown.register(
            QueueMetrics(queue.counters, lambda: queue.pending_bytes, self._engine_restarts)
        )
        self._shown.register(PressureMetrics(queue.pressure))
        self._shown.register(SessionMetrics(queue.session_mismatches))
        self._shown.register(UnpricedModelMetric(UnpricedModels(store).by_model))
        self._tail = LiveTail(
            queue.follow(*SHOWN),
            TailLimits(
                readers=settings.tail_readers,
                readers_per_tenant=settings.tail_readers_per_tenant,
                beat_seconds=settings.tail_beat_seconds,
            ),
            TailMetrics.register(self._registry),
        )
        search = Search(store, time.time_ns)
        reader = RunReader(store)
        traces = Traces(reader)
        replayable = Replayable(store)
        self.parts = Parts(
            gate=self._gate,
            administration=Administration(self._keys, self._audit),
            bodies=BodyReader(
                max_body_bytes=settings.max_body_bytes,
                max_inflight_bytes=settings.max_inflight_bytes,
                body_seconds=settings.body_seconds,
            ),
            accept=Accept(
                _AsyncQueue(queue),
                max_event_bytes=settings.max_event_bytes,
                now_unix_nano=time.time_ns,
                redactor=Redactor(self._registry) if settings.redact == "on" else None,
                metrics=OtlpMetrics.register(self._registry),
                forward=forwarder,
                otlp_limits=OtlpLimits(
                    attributes=settings.max_attributes, value_bytes=settings.max_attribute_bytes
                ),
            ),
            queue=queue,
            delivered=self._delivered,
            tail=self._tail,
            replay=Replay(reader, traces),
            playbacks=Playbacks(),
            traces=traces,
            completeness=Completeness(reader, traces),
            comparison=Comparison(traces, replayable),
            tapes=Tapes(store),
            replayable=replayable,
            emitters=Emitters(store),
            jaeger=Jaeger(store, now_unix_nano=time.time_ns),
            sql=self._new_sql(store),
            scores=Scores(store),
            export=Export(store),
            deletion=Deletion(queue, store, self._audit, self._writers),
            retention=Retention(store, self._audit, default_days=settings.retention_days),
            search=search,
            sessions=Sessions(store, search),
            agents=Agents(store),
            queries=self._queries,
            store_answers=store.ping,
            store_state=self.store_state,
            registry=self._shown,
            http_metrics=HttpMetrics.register(self._registry),
            version=version("tracereel"),
            observer=self._itself.observer if self._itself else None,
            cors_origins=parse_origins(settings.cors_origins),
            jaeger_url=settings.jaeger_url,
            connection_limits=ConnectionLimits(
                max_connections=settings.max_connections,
                header_seconds=settings.header_seconds,
                on_refused=lambda reason: self._access.connections.labels(reason).inc(),
            ),
        )
        return build_api(self.parts)

    def stop(self) -> None:
        """Stop in the order data flows; safe at any stage of start, and safe to call twice."""
        if self._tail is not None:
            self._tail.close()
        if self._watcher is not None:
            self._watcher.stop(timeout=1.0)
        if self._retention is not None:
            self._retention.stop(timeout=1.0)
        if self._backfill is not None:
            self._backfill.stop(timeout=1.0)
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
        if self._itself is not None:
            self._itself.stop(timeout=min(FORWARD_STOP_SECONDS, self._settings.stop_seconds))

    def _observe_itself(self) -> None:
        self._itself = self_observation(self._settings, self._registry)
        if self._itself is not None:
            self._itself.start()

    def _new_gate(self) -> Gate:
        settings = self._settings
        metrics = self._access = AccessMetrics.register(self._registry)
        self._audit = AuditLog(
            settings.data_dir / "audit",
            on_error=lambda lines: metrics.audit_lost.labels("unwritable").inc(lines),
        )
        return Gate(
            GateSettings(
                host=settings.host,
                static=parse_static(settings.api_keys),
                origins=parse_origins(settings.cors_origins),
                rates=Rates(records=settings.rate_records, bytes=settings.rate_bytes),
                rates_file=settings.data_dir / "limits.sqlite",
            ),
            keys=self._keys,
            audit=self._audit,
            metrics=metrics,
        )

    def _forward_target(self) -> Target | None:
        settings = self._settings
        if not settings.forward_to:
            return None
        parse_signals(settings.forward_signals)
        target = parse_target(settings.forward_to, settings.forward_headers)
        check_not_ourselves(target, host=settings.host, port=settings.port)
        return target

    def _new_forwarder(self) -> Forwarder | None:
        settings, target = self._settings, self._forward_target()
        if target is None:
            return None
        return Forwarder(
            target,
            ForwardLimits(
                max_bytes=settings.forward_queue_bytes,
                request_seconds=settings.forward_seconds,
                age_seconds=settings.forward_age_seconds,
                signals=parse_signals(settings.forward_signals),
                own_spans=settings.forward_events == "on",
            ),
            own_id=own_id_of(settings),
            metrics=ForwardMetrics.register(self._registry),
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
        )

    def _find_store(self) -> StoreAddress:
        if self._settings.store != "embedded":
            return StoreAddress.parse(self._settings.store)
        self._engine = start_engine(self._settings, on_event=_told_by_engine)
        return engine_address(self._engine)

    def _engine_restarts(self) -> int:
        return int(self.store_state().get("restarts", 0))

    def store_state(self) -> dict[str, Any]:
        """What is known of the store without asking it."""
        if self._link is not None:
            return _read_state(Path(self._link.state_file))
        if self._engine is None:
            return {"kind": "clickhouse"}
        return {
            "kind": "embedded",
            "address": f"{self._engine.host}:{self._engine.port}",
            "engine": self._engine.state,
            "restarts": self._engine.restarts,
        }


def _told_by_engine(name: str, fields: Mapping[str, object]) -> None:
    """That it comes and goes as it was told to is no news."""
    tell = log.debug if name in ("engine.ready", "engine.stopped") else log.info
    tell(name, **fields)


def _read_state(file: Path) -> dict[str, Any]:
    """What the parent wrote down last."""
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
