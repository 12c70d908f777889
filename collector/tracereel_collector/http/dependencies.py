"""Components that route handlers use; the application provides them through the request."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fastapi import Request
from prometheus_client import CollectorRegistry

from tracereel_collector.auth import AccessGate
from tracereel_collector.auth.administration import Administration
from tracereel_collector.auth.public_url import PublicUrl
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.http.connections import ConnectionLimits
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.live.hub import LiveTail
from tracereel_collector.model import Kind, QuarantineEntry, WaitingEvents
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.completeness import CompletenessQuery
from tracereel_collector.query.diff import Comparison
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.query.export import Export
from tracereel_collector.query.jaeger.reader import Jaeger
from tracereel_collector.query.replay import ReplayQuery
from tracereel_collector.query.replayable import ReplayableRun, Tapes
from tracereel_collector.query.retention import Retention
from tracereel_collector.query.scores import Scores
from tracereel_collector.query.search import Search
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.trace import Traces
from tracereel_collector.query.user_sql import PeoplesSql
from tracereel_collector.runtime.clock import TrustedClock
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares
from tracereel_collector.telemetry import HttpMetrics

Answer = TypeVar("Answer")
PROBE_SECONDS = 2.0
MAX_PLAYBACKS = 64
"""Most playbacks of runs in one process."""


class QueueView(Protocol):
    """The part of the queue that routes use."""

    @property
    def pending_bytes(self) -> int:
        """Acknowledged bytes that are not yet in the store."""
        ...

    def refusal(self) -> str | None:
        """Return why an append would be refused now and what to do; None if accepted."""
        ...

    def hurry(self, kind: Kind, /) -> None:
        """Deliver the waiting bodies of a kind now."""
        ...

    def events_waiting(self, *, tenant: str, trace_id: str) -> WaitingEvents:
        """Return the acknowledged events of a run that are not yet in the store."""
        ...

    def newest_body(self, kind: Kind, /) -> int | None:
        """Return the last body of a kind that is still in the queue."""
        ...

    def is_delivered(self, kind: Kind, body_id: int, /) -> bool:
        """Return whether a body is in the store."""
        ...

    def quarantined(
        self, *, tenant: str, before: int | None = None, limit: int = 100
    ) -> list[QuarantineEntry]:
        """List a tenant's quarantined records, newest first."""
        ...

    def quarantine_entry(self, entry_id: int, /, *, tenant: str) -> QuarantineEntry | None:
        """Return a quarantined record with its data."""
        ...

    def retry_quarantined(self, entry_id: int, /, *, tenant: str) -> bool:
        """Deliver a quarantined record again; return whether it exists."""
        ...

    def drop_quarantined(self, entry_id: int, /, *, tenant: str) -> bool:
        """Delete a quarantined record; return whether it existed."""
        ...


class RequestObserver(Protocol):
    """Callbacks for every completed request."""

    def is_own(self, headers: list[tuple[bytes, bytes]], /) -> bool:
        """Return whether a request carries this collector's own telemetry."""
        ...

    def request_done(
        self,
        *,
        method: str,
        route: str,
        status: int,
        seconds: float,
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        """Record a completed request."""
        ...


class DeliveryNotice:
    """Wakes up requests that wait for delivery."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop of the waiting requests."""
        self._loop = loop

    def notify(self) -> None:
        """Wake up the waiting requests; safe from any thread, even after the loop has ended."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_until(self, predicate: Callable[[], bool], *, timeout: float) -> bool:  # noqa: ASYNC109
        """Wait for a condition, checked after every delivery; return whether it came true in time."""
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
    """Slots of running playbacks; all end when the collector stops."""

    def __init__(self, shares: SharePolicy = ONE_TENANT, *, most: int = MAX_PLAYBACKS) -> None:
        self.stopping = asyncio.Event()
        self.slots = TenantShares("playbacks", most, shares, hint="read it without stream=1")

    async def start(self) -> None:
        """Do nothing; services are started and stopped alike."""

    async def stop(self) -> None:
        """End all playbacks."""
        self.stopping.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Components that route handlers use."""

    gate: AccessGate
    administration: Administration
    bodies: BodyReader
    accept: Accept
    queue: QueueView
    clock: TrustedClock
    delivered: DeliveryNotice
    tail: LiveTail
    replay: ReplayQuery
    playbacks: Playbacks
    tapes: Tapes
    replayable: ReplayableRun
    traces: Traces
    completeness: CompletenessQuery
    comparison: Comparison
    emitters: Emitters
    jaeger: Jaeger
    search: Search
    sql: PeoplesSql
    scores: Scores
    export: Export
    deletion: Deletion
    retention: Retention
    sessions: Sessions
    agents: Agents
    queries: QueryThreads
    requests: TenantShares
    shares: SharePolicy
    store_answers: Callable[[], bool]
    store_state: Callable[[], dict[str, Any]]
    registry: CollectorRegistry
    http_metrics: HttpMetrics
    version: str
    observer: RequestObserver | None = None
    cors_origins: tuple[str, ...] = ()
    public: PublicUrl = PublicUrl()
    jaeger_url: str = ""
    connection_limits: ConnectionLimits = ConnectionLimits()


def parts_of(request: Request) -> Parts:
    """Return the components of the application that serves a request."""
    parts: Parts = request.app.state.parts
    return parts
