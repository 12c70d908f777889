"""Components that route handlers use; the application provides them through the request."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final, TypeVar

from fastapi import Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry

from tracereel_collector.auth import AccessGate, Caller
from tracereel_collector.auth.replicas import AccessReplicas
from tracereel_collector.config import Settings
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.deliver.deletion_queues import GroupQueues, OwnQueue
from tracereel_collector.group.peers import PeerClient, PeerStates
from tracereel_collector.http.connections import ConnectionLimits
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.ingest.otlp_mend import OtlpLimits
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.live.hub import LiveTail
from tracereel_collector.live.records import SHOWN
from tracereel_collector.otlp_out.forward.forwarder import Forwarder
from tracereel_collector.otlp_out.observe.observer import Observer
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.completeness import CompletenessQuery
from tracereel_collector.query.content.questions import Questions
from tracereel_collector.query.content.step import StepContent
from tracereel_collector.query.diff import Comparison
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.query.export import Export, export_slots
from tracereel_collector.query.fleets import Fleets
from tracereel_collector.query.jaeger.reader import Jaeger
from tracereel_collector.query.many_tapes import ManyTapes
from tracereel_collector.query.replay import ReplayQuery
from tracereel_collector.query.replayable import ReplayableRun, Tapes
from tracereel_collector.query.retention import Retention
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.scores import Scores
from tracereel_collector.query.search import Search
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.unread_names import UnreadNames
from tracereel_collector.query.user_sql import SqlLimits, UserSql
from tracereel_collector.query.user_sql.catalogue import CatalogueCache
from tracereel_collector.queue import DurableQueue
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.relay.handover import Owners
from tracereel_collector.runtime.clock import TrustedClock
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.user_sql import UserSqlStore
from tracereel_collector.telemetry import HttpMetrics, OtlpMetrics, TailMetrics

Answer = TypeVar("Answer")
PROBE_SECONDS: Final = 2.0
RELAY_HEAD_BYTES: Final = 8 * 1024 * 1024
MAX_PLAYBACKS: Final = 64
"""Most playbacks of runs in one process."""
QUERY_THREADS: Final = 8
QUERY_WAIT_SECONDS: Final = 60.0
"""Longest wait for a free query thread."""


class DeliveryNotice:
    """Wakes up requests that wait for delivery."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        """Loop of the waiting requests; None before the first."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake up the waiting requests; safe from any thread, even after the loop has ended."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_until(self, predicate: Callable[[], bool], *, timeout: float) -> bool:  # noqa: ASYNC109
        """Wait for a condition, checked after every delivery; return whether it came true in time."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    changed = self._changed
                    if await asyncio.to_thread(predicate):
                        return True
                    await changed.wait()
        except TimeoutError:
            return False


class QueryThreads:
    """Thread pool for queries; ingest does not use it, so it never waits for the store."""

    def __init__(
        self, *, threads: int, shares: SharePolicy = ONE_TENANT, wait_seconds: float = 60.0
    ) -> None:
        self._slots = TenantShares("queries", threads, shares)
        self._wait_seconds = wait_seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="query")
        self._probe = ThreadPoolExecutor(1, thread_name_prefix="store-probe")
        self._probing: asyncio.Future[bool] | None = None

    async def run(self, work: Callable[[], Answer], *, tenant: str) -> Answer:
        """Run a blocking query in a thread; waiting tenants take turns.

        Raises:
            ThrottledError: no thread became free in time.
        """
        await self._slots.wait(tenant, seconds=self._wait_seconds)
        try:
            running = self._pool.submit(work)
        except BaseException:
            self._slots.give_back(tenant)
            raise
        # The slot belongs to the thread: a query continues after its request is cancelled.
        running.add_done_callback(lambda _: self._slots.give_back(tenant))
        return await asyncio.wrap_future(running)

    async def answers_soon(self, ping: Callable[[], bool]) -> bool:
        """Return whether the store responds within two seconds; probes never overlap."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().run_in_executor(self._probe, ping)
        done, _ = await asyncio.wait([self._probing], timeout=PROBE_SECONDS)
        return bool(done) and self._probing.result()

    def close(self) -> None:
        """Stop the threads without waiting for running queries."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._probe.shutdown(wait=False, cancel_futures=True)


class Playbacks:
    """Slots of running playbacks; all end when `stopping` is set."""

    def __init__(self, shares: SharePolicy = ONE_TENANT, *, most: int = MAX_PLAYBACKS) -> None:
        self.stopping = asyncio.Event()
        self.slots = TenantShares("playbacks", most, shares, hint="read it without stream=1")


class Parts:
    """Components that route handlers use, on top of one queue and one store."""

    def __init__(
        self,
        settings: Settings,
        *,
        gate: AccessGate,
        queue: DurableQueue,
        store: ClickHouseStore,
        store_address: StoreAddress,
        store_state: Callable[[], dict[str, Any]],
        writers: StoreWriters,
        clock: TrustedClock,
        shares: SharePolicy,
        delivered: DeliveryNotice,
        forwarder: Forwarder | None,
        observer: Observer | None,
        peers: PeerClient | None,
        peer_states: PeerStates | None,
        replicas: AccessReplicas | None,
        counted: CollectorRegistry,
        shown: CollectorRegistry,
    ) -> None:
        now = clock.unix_nano
        self.version = version("tracereel")
        self.jaeger_url = settings.jaeger_url
        self.gate, self.queue, self.clock, self.shares = gate, queue, clock, shares
        self.delivered, self.observer = delivered, observer
        self.peers, self.peer_states = peers, peer_states
        self.replicas = replicas
        self.store_answers, self.store_state = store.ping, store_state
        self.registry = shown
        self.http_metrics = HttpMetrics.register(counted)
        self.connection_limits = ConnectionLimits(
            max_connections=settings.max_connections,
            header_seconds=settings.header_seconds,
            on_refused=lambda reason: gate.metrics.connections.labels(reason).inc(),
        )
        self.requests = TenantShares("requests", settings.max_connections, shares)
        # All workers query the same store, so each worker gets its part of the tenant share.
        share = shares.share if shares.share == 1 else shares.share / max(1, settings.workers)
        self.queries = QueryThreads(
            threads=QUERY_THREADS,
            shares=replace(shares, share=share),
            wait_seconds=QUERY_WAIT_SECONDS,
        )

        self.bodies = BodyReader(
            max_body_bytes=settings.max_body_bytes,
            max_inflight_bytes=settings.max_inflight_bytes,
            body_seconds=settings.body_seconds,
            shares=shares,
        )
        self.relays = BodyReader(
            # A relay has the numbers of its events beside the body.
            max_body_bytes=2 * settings.max_body_bytes + RELAY_HEAD_BYTES,
            max_inflight_bytes=max(
                settings.max_inflight_bytes, 2 * settings.max_body_bytes + RELAY_HEAD_BYTES
            ),
            body_seconds=settings.body_seconds,
        )
        self.owners = Owners(queue, peers.group) if peers else None
        self.accept = Accept(
            queue,
            max_event_bytes=settings.max_event_bytes,
            now_unix_nano=now,
            redactor=Redactor(counted) if settings.redact == "on" else None,
            metrics=OtlpMetrics.register(counted),
            forward=None if forwarder is None else forwarder.offer,
            owners=self.owners,
            otlp_limits=OtlpLimits(
                attributes=settings.max_attributes,
                value_bytes=settings.max_attribute_bytes,
                objects=settings.max_body_objects,
            ),
            working_bytes=settings.max_inflight_bytes,
            shares=shares,
        )
        self.tail = LiveTail(queue.follow(*SHOWN), settings, TailMetrics.register(counted), shares)

        reader = RunReader(store)
        self.traces = Traces(reader, now_unix_nano=now)
        self.content = StepContent(reader, self.traces)
        self.questions = Questions(store)
        self.search = Search(store, time.time_ns, trusted_unix_nano=now)
        self.replay = ReplayQuery(reader, self.traces, self.search)
        self.playbacks = Playbacks(shares)
        self.completeness = CompletenessQuery(reader, self.traces, now_unix_nano=now)
        self.replayable = ReplayableRun(store)
        self.fleets = Fleets(store)
        self.comparison = Comparison(self.traces, self.replayable, reader)
        self.tapes = Tapes(store)
        self.many_tapes = ManyTapes(store)
        self.emitters = Emitters(store)
        self.unread_names = UnreadNames(store)
        self.jaeger = Jaeger(store, now_unix_nano=now)
        self.scores = Scores(store)
        self.export = Export(store, export_slots(shares))
        self.sessions = Sessions(store, self.search, self.questions)
        self.agents = Agents(store)
        self.own_queue = OwnQueue(queue)
        queues = GroupQueues(self.own_queue, peers) if peers else self.own_queue
        self.deletion = Deletion(queues, store, gate.audit, writers, now_unix=clock.unix)
        self.retention = Retention(
            store, gate.audit, default_days=settings.retention_days, dating=clock.dating
        )
        limits = SqlLimits()
        self.sql = UserSql(
            UserSqlStore(store_address, connections=limits.at_once),
            CatalogueCache(store_address.database, store.rows),
            replace(
                limits,
                seconds=min(limits.seconds, settings.query_seconds),
                memory_bytes=min(limits.memory_bytes, settings.query_memory_bytes),
            ),
            shares,
        )


def parts_of(request: Request) -> Parts:
    """Return the components of the application that serves a request."""
    parts: Parts = request.app.state.parts
    return parts


def caller_of(request: Request) -> Caller:
    """Return the admitted caller."""
    caller: Caller = request.state.caller
    return caller


def body_of(request: Request) -> AbstractAsyncContextManager[bytes]:
    """Read the body of a request within the limits of its tenant."""
    return parts_of(request).bodies.read(
        request.stream(), request.headers, tenant=caller_of(request).tenant
    )


async def query(request: Request, ask: Callable[[Parts, str], Answer]) -> Answer:
    """Run a query for the tenant of the caller in a query thread."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    return await parts.queries.run(lambda: ask(parts, tenant), tenant=tenant)


async def query_json(request: Request, ask: Callable[[Parts, str], bytes]) -> Response:
    """Respond with the JSON document that a query returns."""
    return Response(await query(request, ask), media_type="application/json")
