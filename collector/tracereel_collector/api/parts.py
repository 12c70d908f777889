"""What the surfaces are given by the composition root."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import Request
from prometheus_client import CollectorRegistry

from tracereel_collector.auth import Keyring
from tracereel_collector.ingest.accept import Accept
from tracereel_collector.ingest.body import BodyReader
from tracereel_collector.model import Kind
from tracereel_collector.query.replay import Replay
from tracereel_collector.telemetry import HttpMetrics


class QueueView(Protocol):
    """What the surfaces may ask of the queue."""

    pending_bytes: int

    @property
    def accepts(self) -> bool:
        """Whether an append would be taken now."""
        ...

    def hurry(self, kind: Kind, /) -> None:
        """Ask for delivery of what waits, now."""
        ...

    def is_delivered(self, kind: Kind, body_id: int, /) -> bool:
        """Whether a body is in the store."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a surface may use."""

    keyring: Keyring
    bodies: BodyReader
    accept: Accept
    queue: QueueView
    delivered: DeliveryNotice
    replay: Replay
    store_answers: Callable[[], bool]
    store_state: Callable[[], dict[str, Any]]
    registry: CollectorRegistry
    http_metrics: HttpMetrics
    version: str
    wait_stored_seconds: float = 30.0


def parts_of(request: Request) -> Parts:
    """The parts of the app a request came to."""
    parts: Parts = request.app.state.parts
    return parts
