"""What the surfaces are given by the composition root."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fastapi import Request
from prometheus_client import CollectorRegistry

from tracereel_collector.api.playback import Playbacks
from tracereel_collector.auth import Gate
from tracereel_collector.auth.administration import Administration
from tracereel_collector.connections import ConnectionLimits
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.live.hub import LiveTail
from tracereel_collector.model import Kind, QuarantineEntry, Waiting
from tracereel_collector.query.agents import Agents
from tracereel_collector.query.completeness import Completeness
from tracereel_collector.query.diff import Comparison
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.query.export import Export
from tracereel_collector.query.jaeger.reader import Jaeger
from tracereel_collector.query.replay import Replay
from tracereel_collector.query.replayable import Replayable
from tracereel_collector.query.retention import Retention
from tracereel_collector.query.scores import Scores
from tracereel_collector.query.search import Search
from tracereel_collector.query.sessions import Sessions
from tracereel_collector.query.sql import PeoplesSql
from tracereel_collector.query.tape import Tapes
from tracereel_collector.query.trace import Traces
from tracereel_collector.telemetry import HttpMetrics

Answer = TypeVar("Answer")
PROBE_SECONDS = 2.0


class QueueView(Protocol):
    """What the surfaces may ask of the queue."""

    @property
    def pending_bytes(self) -> int:
        """Bytes acknowledged and not yet in the store."""
        ...

    @property
    def accepts(self) -> bool:
        """Whether an append would be taken now."""
        ...

    def hurry(self, kind: Kind, /) -> None:
        """Ask for delivery of what waits, now."""
        ...

    def events_waiting(self, *, tenant: str, trace_id: str) -> Waiting:
        """How many events of a run are acknowledged and not yet in the store."""
        ...

    def newest_body(self, kind: Kind, /) -> int | None:
        """The last body of a kind that is still in the queue."""
        ...

    def is_delivered(self, kind: Kind, body_id: int, /) -> bool:
        """Whether a body is in the store."""
        ...

    def quarantined(
        self, *, tenant: str, before: int | None = None, limit: int = 100
    ) -> list[QuarantineEntry]:
        """A tenant's quarantined records, the newest first."""
        ...

    def quarantine_entry(self, entry_id: int, /, *, tenant: str) -> QuarantineEntry | None:
        """One of them, with its data."""
        ...

    def retry_quarantined(self, entry_id: int, /, *, tenant: str) -> bool:
        """Let delivery try one again; whether there is one of that id."""
        ...

    def drop_quarantined(self, entry_id: int, /, *, tenant: str) -> bool:
        """Forget one for good; whether there was one of that id."""
        ...


class RequestObserver(Protocol):
    """Who is told of every request that was answered."""

    def is_own(self, headers: list[tuple[bytes, bytes]], /) -> bool:
        """Whether a request is what this collector itself has sent elsewhere."""
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
        """It was answered so."""
        ...


class DeliveryNotice:
    """Wakes requests that wait for the store, from the thread that delivers."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say in which loop the requests wait."""
        self._loop = loop

    def notify(self) -> None:
        """Something was delivered; safe from any thread, also after the loop has ended."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_until(self, predicate: Callable[[], bool], *, timeout: float) -> bool:  # noqa: ASYNC109
        """Whether a condition came true in time; looked at after every delivery."""
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
    """Threads that may wait for the store; ingest never uses them, so it never waits behind them."""

    def __init__(self, *, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="query")
        self._probe = ThreadPoolExecutor(1, thread_name_prefix="store-probe")
        self._probing: asyncio.Future[bool] | None = None

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """The result of a blocking question to the store."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def answers_soon(self, ping: Callable[[], bool]) -> bool:
        """Whether the store answers within two seconds; at most one such question is under way."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().run_in_executor(self._probe, ping)
        done, _ = await asyncio.wait([self._probing], timeout=PROBE_SECONDS)
        return bool(done) and self._probing.result()

    def close(self) -> None:
        """Let go of the threads without waiting for what they wait for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._probe.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a surface may use."""

    gate: Gate
    administration: Administration
    bodies: BodyReader
    accept: Accept
    queue: QueueView
    delivered: DeliveryNotice
    tail: LiveTail
    replay: Replay
    playbacks: Playbacks
    tapes: Tapes
    replayable: Replayable
    traces: Traces
    completeness: Completeness
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
    store_answers: Callable[[], bool]
    store_state: Callable[[], dict[str, Any]]
    registry: CollectorRegistry
    http_metrics: HttpMetrics
    version: str
    observer: RequestObserver | None = None
    cors_origins: tuple[str, ...] = ()
    jaeger_url: str = ""
    connection_limits: ConnectionLimits = ConnectionLimits()


def parts_of(request: Request) -> Parts:
    """The parts of the app a request came to."""
    parts: Parts = request.app.state.parts
    return parts
