"""Reads of the store: what waits for delivery is stored before the first of them is answered.

Without reads, delivery collects records for some seconds. Reads end that; the first one after a
pause waits until what was acknowledged before it is stored.
"""

import asyncio
import time
from collections.abc import Callable

from tracereel_collector.model import Kind
from tracereel_collector.queue import DurableQueue

NOTICE_SECONDS = 5.0
"""Time between two notices to delivery while reads follow each other."""
PAUSE_SECONDS = 20.0
"""Time without reads after which delivery may have slowed down; below its own by more than a notice."""
CATCH_UP_SECONDS = 3.0
"""Longest time that a first read waits."""


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


class StoreReads:
    """Has records stored soon while there are reads."""

    def __init__(self, queue: DurableQueue, delivered: DeliveryNotice, *, is_held: bool) -> None:
        self._queue = queue
        self._delivered = delivered
        self._is_held = is_held
        """Whether delivery waits for reads at all."""
        self._read_at = self._notified_at = time.monotonic()
        self._catching_up: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Note a read, and wait for delivery if it is the first one after a pause."""
        if not self._is_held:
            return
        now = time.monotonic()
        is_first, self._read_at = now - self._read_at >= PAUSE_SECONDS, now
        if is_first or now - self._notified_at >= NOTICE_SECONDS:
            self._notified_at = now
            for kind in Kind:
                self._queue.hurry(kind)
        if is_first:
            self._catching_up = asyncio.create_task(self._catch_up())
        # Reads that arrive meanwhile wait too, or they would miss what this one finds.
        if self._catching_up is not None and not self._catching_up.done():
            await asyncio.shield(self._catching_up)

    async def _catch_up(self) -> None:
        newest = await asyncio.to_thread(
            lambda: {kind: self._queue.newest_body(kind) for kind in Kind}
        )
        bodies = {kind: body for kind, body in newest.items() if body is not None}
        await self._delivered.wait_until(
            lambda: all(self._queue.is_delivered(kind, body) for kind, body in bodies.items()),
            timeout=CATCH_UP_SECONDS,
        )
