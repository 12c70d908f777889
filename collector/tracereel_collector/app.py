"""Composition root: creates the collector's components and starts and stops them in order."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from starlette.types import ASGIApp

from tracereel_collector.auth import AccessGate
from tracereel_collector.auth.replicas import AccessReplicas
from tracereel_collector.config import Settings
from tracereel_collector.deliver.price_names import PriceNames
from tracereel_collector.deliver.retention import RetentionWorker
from tracereel_collector.deliver.settling import SettlingWorker
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.group.members import Group
from tracereel_collector.group.peers import LOOK_SECONDS, PeerClient, PeerStates
from tracereel_collector.http.build import build_api
from tracereel_collector.http.connections import allow_open_files
from tracereel_collector.http.dependencies import QUERY_THREADS, DeliveryNotice, Parts
from tracereel_collector.model import Kind
from tracereel_collector.ops.alerts.watch import Watcher
from tracereel_collector.ops.alerts.webhook import Webhook
from tracereel_collector.otlp_out.forward.forwarder import new_forwarder
from tracereel_collector.otlp_out.forward.target import forward_target
from tracereel_collector.otlp_out.observe.observer import Observer, own_id_of, self_observation
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.costs import UnpricedModels
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.queue.queue import Ring
from tracereel_collector.relay.handover import LOOK_SECONDS as HAND_OVER_SECONDS
from tracereel_collector.relay.handover import HandOver
from tracereel_collector.relay.worker import RelayWorker
from tracereel_collector.runtime.clock.trusted import TICK_SECONDS
from tracereel_collector.runtime.periodic_task import PeriodicTask
from tracereel_collector.runtime.tenant_shares import SharePolicy
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
from tracereel_collector.store.sql import query
from tracereel_collector.telemetry import (
    AlertMetrics,
    DeliveryMetrics,
    RelayMetrics,
    RetentionMetrics,
    ScrapedMetrics,
    SettlingMetrics,
    SharedMetrics,
    ThrottleMetrics,
)

log = structlog.get_logger(__name__)

FORWARD_STOP_SECONDS = 3.0
SEED_PAGE = 500
_ENGINE_WARNINGS = ("engine.died", "engine.memory_above_limit", "engine.memory_reserve_taken")


class Collector:
    """Complete collector in this process; an embedded store runs as a child process."""

    def __init__(
        self, settings: Settings, *, link: Link | None = None, shared: bool = False
    ) -> None:
        self._settings = settings
        self._link = link
        self._shared = shared or link is not None
        self._delivered = DeliveryNotice()
        self._started = ExitStack()
        self._group = Group.of(settings)
        self._engine: Supervisor | None = None
        self._observer: Observer | None = None
        self._prepare: Preparation | None = None
        self._queue: DurableQueue
        self._store: ClickHouseStore
        self.store_address: StoreAddress
        self.parts: Parts
        # With several workers, /metrics merges the shared metric files of all processes.
        self._registry = CollectorRegistry() if link is not None else _new_registry()
        self._shown = CollectorRegistry() if link is not None else self._registry
        self._writers = StoreWriters((settings.data_dir / QUEUE_FILE).parent)
        self._clock = clock_of(settings, is_owner=link is None)
        self._started.callback(self._clock.close)
        self._gate = AccessGate(settings, self._registry, now_unix=self._clock.latest_unix)
        self._started.callback(self._gate.close)
        refused = ThrottleMetrics.register(self._registry).refused
        self._shares = SharePolicy(
            share=settings.tenant_share,
            has_several_tenants=lambda: self._gate.has_several_tenants,
            on_refused=lambda resource, reason: refused.labels(resource, reason).inc(),
        )

    def start(self) -> ASGIApp:
        """Start all components and return the ASGI application."""
        if self._link is None:
            self.start_core(on_delivered=self._delivered.notify)
        else:
            self._join_core(self._link)
        return self._open_door()

    def start_core(self, *, on_delivered: Callable[[], None]) -> None:
        """Start the components that exist once: engine, queue owner, delivery."""
        settings = self._settings
        self._start_clock()
        self._gate.check()
        forward_target(settings)
        self._observe_itself()
        webhook = Webhook(settings.alert_webhook) if settings.alert_webhook else None
        prices = known_prices(Path(settings.price_file) if settings.price_file else None)
        queue = self._open_queue()
        if queue.damaged_files:
            log.error(
                "queue_was_damaged",
                kept_as=[file.name for file in queue.damaged_files],
                bodies_rescued=queue.rescued_bodies,
            )
        store = self._open_store(self._find_store())
        prepare = self._prepare = Preparation(store, queue, prices)
        try:
            prepare()
        except StoreUnavailableError as error:
            # Ingest does not need the store; delivery prepares it when it is available again.
            log.warning("store_unavailable", reason=error.message)
        if self._group is not None:
            self._change_members(self._group, queue, store, on_delivered)
        elif name := queue.membership.state().name:
            raise StartupError(
                f"this data directory belongs to member {name!r} of a group",
                hint="set TRACEREEL_PEERS; a list of one member is a group too",
            )
        names = PriceNames(store)
        names.start()
        self._started.callback(names.stop, timeout=1.0)

        own_name = ""
        members: tuple[str, ...] = ("",)
        if self._group is not None:
            own_name, members = self._group.name, self._group.names
        has_share = own_name in members
        settling = SettlingWorker(
            store,
            self._writers,
            metrics=SettlingMetrics.register(self._registry),
            member=members.index(own_name) if has_share else 0,
            members=len(members),
        )
        # A member that leaves the group has no share: the others settle what it delivers.
        if has_share:
            settling.start()
            self._started.callback(settling.stop, timeout=settings.stop_seconds)

        def delivered() -> None:
            names.note_delivery()
            settling.note_delivery()
            on_delivered()

        worker = DeliveryWorker(
            queue,
            store,
            BatchLimits(
                max_records=settings.batch_records,
                max_bytes=self._batch_bytes(),
                linger_seconds=settings.linger_seconds,
            ),
            metrics=DeliveryMetrics.register(self._registry),
            prepare=prepare,
            on_delivered=delivered,
            writers=self._writers,
            on_batch=self._observer.batch_done if self._observer else None,
        )
        worker.start()
        self._started.callback(worker.stop, timeout=settings.stop_seconds)
        if self._group is not None:
            relay = RelayWorker(
                queue,
                self._group,
                metrics=RelayMetrics.register(self._registry),
                on_relayed=on_delivered,
            )
            relay.start()
            self._started.callback(relay.stop, timeout=1.0)
        retention = RetentionWorker(
            store,
            queue,
            self._writers,
            default_days=settings.retention_days,
            every_seconds=settings.retention_seconds,
            metrics=RetentionMetrics.register(self._registry),
            dating=self._clock.dating,
        )
        retention.start()
        self._started.callback(retention.stop, timeout=1.0)
        if webhook is not None:
            watcher = Watcher(
                queue,
                Agents(store),
                webhook,
                every_seconds=settings.alert_seconds,
                sent=AlertMetrics.register(self._registry).sent,
                now=self._clock.unix,
            )
            watcher.start()
            self._started.callback(watcher.stop, timeout=1.0)

    def wake_delivery(self, data: bytes) -> None:
        """Wake up delivery after a worker appended to the queue."""
        self._queue.note_appends(hurried(data))

    def _join_core(self, link: Link) -> None:
        """Connect a worker to the queue and the store of the parent process."""
        self._observe_itself()
        self._start_clock()
        bell = WakeupPipe(link.bell_fd)
        self._started.callback(bell.close)
        self._open_queue(ring=bell.appended)
        self._open_store(link.store)
        SharedMetrics(self._shown, link.metrics_dir)
        listen_to(link.delivered_fd, lambda _: self._delivered.notify(), name="delivered-bell")

    def _open_door(self) -> ASGIApp:
        """Build the HTTP application on top of the queue and the store."""
        settings = self._settings
        allow_open_files(settings.max_connections)
        self._gate.start()
        forwarder = new_forwarder(
            settings, self._registry, own_id=own_id_of(settings), shares=self._shares
        )
        if forwarder is not None:
            forwarder.start()
            self._started.callback(
                forwarder.stop, timeout=min(FORWARD_STOP_SECONDS, settings.stop_seconds)
            )
        peers = states = replicas = None
        if self._group is not None:
            peers, states, replicas = self._know_peers(self._group)
        unpriced = UnpricedModels(self._store)
        self._shown.register(
            ScrapedMetrics(self._queue.counters, lambda: self._scraped(unpriced.calls()))
        )
        self.parts = Parts(
            settings,
            gate=self._gate,
            queue=self._queue,
            store=self._store,
            store_address=self.store_address,
            store_state=self.store_state,
            writers=self._writers,
            clock=self._clock,
            shares=self._shares,
            delivered=self._delivered,
            forwarder=forwarder,
            observer=self._observer,
            peers=peers,
            peer_states=states,
            replicas=replicas,
            counted=self._registry,
            shown=self._shown,
        )
        self._started.callback(self.parts.queries.close)
        self._started.callback(self.parts.tail.close)
        return build_api(self.parts)

    def stop(self) -> None:
        """Stop all components in the reverse order of their start; idempotent."""
        self._started.close()

    def _start_clock(self) -> None:
        ticks = PeriodicTask("clock", self._clock.tick, every_seconds=TICK_SECONDS)
        ticks.start()
        self._started.callback(ticks.stop, timeout=1.0)

    def _know_peers(self, group: Group) -> tuple[PeerClient, PeerStates, AccessReplicas]:
        """Start looking at the peers, for `/readyz`, questions to all members, and their keys."""
        peers = PeerClient(group)
        self._started.callback(peers.close)
        states = PeerStates(peers)
        replicas = AccessReplicas(self._gate, peers)

        def look() -> None:
            replicas.pull({name: said.get("keys") for name, said in states.look().items()})

        looks = PeriodicTask("group", look, every_seconds=LOOK_SECONDS)
        looks.start()
        self._started.callback(looks.stop, timeout=1.0)
        return peers, states, replicas

    def _change_members(
        self,
        group: Group,
        queue: DurableQueue,
        store: ClickHouseStore,
        on_active: Callable[[], None],
    ) -> None:
        """Take the list of members of the settings, and start handing ledgers over."""
        peers = PeerClient(group)
        self._started.callback(peers.close)

        def numbers(tenant: str, emitter_id: str) -> list[tuple[str, str, str]]:
            page = query("seed_emitters")
            rows = store.rows(page, tenant=tenant, emitter_id=emitter_id, page=SEED_PAGE)
            return [(of_tenant, emitter, seen) for of_tenant, emitter, seen in rows]

        hand_over = HandOver(queue, peers, numbers, on_active=on_active)
        hand_over.begin()
        looks = PeriodicTask("handover", hand_over.look, every_seconds=HAND_OVER_SECONDS)
        looks.start()
        self._started.callback(looks.stop, timeout=1.0)

    def _observe_itself(self) -> None:
        self._observer = self_observation(self._settings, self._registry)
        if self._observer is not None:
            self._observer.start()
            self._started.callback(
                self._observer.stop, timeout=min(FORWARD_STOP_SECONDS, self._settings.stop_seconds)
            )

    def _open_queue(self, ring: Ring | None = None) -> DurableQueue:
        self._queue = DurableQueue(
            self._settings.data_dir / QUEUE_FILE,
            queue_limits(self._settings),
            now_unix_nano=self._clock.unix_nano,
            steady_nano=self._clock.steady_nano,
            shared=self._shared,
            ring=ring,
            shares=self._shares,
            refuse_foreign_users=self._settings.session_owners == "refuse",
        )
        self._started.callback(self._queue.close)
        return self._queue

    def _open_store(self, address: StoreAddress) -> ClickHouseStore:
        self.store_address = address
        self._store = ClickHouseStore(
            address,
            query_seconds=self._settings.query_seconds,
            query_memory_bytes=self._settings.query_memory_bytes,
            max_clients=QUERY_THREADS + len(Kind) + 1,
        )
        self._started.callback(self._store.close)
        return self._store

    def _batch_bytes(self) -> int:
        """Return the most bytes of one insert; an embedded store with little memory takes less."""
        wanted = self._settings.batch_bytes
        return wanted if self._engine is None else min(wanted, self._engine.settings.insert_bytes)

    def _find_store(self) -> StoreAddress:
        if self._settings.store != "embedded":
            return StoreAddress.parse(self._settings.store)
        self._engine = start_engine(self._settings, on_event=_log_engine_event)
        self._started.callback(self._engine.stop)
        return engine_address(self._engine)

    def _scraped(self, unpriced_calls: int) -> dict[str, float]:
        pressure, clock = self._queue.pressure(), self._clock.status()
        return {
            "queue_pending_bytes": self._queue.pending_bytes,
            "queue_oldest_seconds": pressure.oldest_seconds,
            "queue_quarantined_bytes": pressure.quarantined_bytes,
            "queue_limit_bytes": pressure.limit_bytes,
            "disk_free_bytes": pressure.disk_free_bytes,
            "disk_kept_bytes": pressure.disk_kept_bytes,
            "engine_restarts": int(self.store_state().get("restarts", 0)),
            "session_user_mismatches": self._queue.session_mismatches(),
            "unpriced_model_calls": unpriced_calls,
            "clock_jump_seconds": clock.jump_seconds,
            "clock_held_seconds": clock.held_seconds,
            "clock_corrections": clock.corrections,
        }

    def store_state(self) -> dict[str, Any]:
        """Return the state of the store without querying it."""
        if self._link is not None:
            return _read_state(Path(self._link.state_file))
        problem = self._prepare.problem if self._prepare else ""
        usable = {"usable": not problem, **({"problem": problem} if problem else {})}
        if self._engine is None:
            return {"kind": "clickhouse", **usable}
        return {
            "kind": "embedded",
            **usable,
            "address": f"{self._engine.host}:{self._engine.port}",
            "engine": self._engine.state,
            "restarts": self._engine.restarts,
            **({"advice": self._engine.advice} if self._engine.advice else {}),
        }


def _log_engine_event(name: str, fields: Mapping[str, object]) -> None:
    """Log an engine event; planned starts and stops at debug level."""
    write = log.warning if name in _ENGINE_WARNINGS else log.info
    (log.debug if name in ("engine.ready", "engine.stopped") else write)(name, **fields)


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
