"""Exact recording (opt-in): results are delivered one at a time to an idle loop.

This changes the scheduling of the program, and a replay can repeat the recorded order exactly. By
default nothing waits.
"""

import asyncio
import threading
import time
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

from tracereel._runtime import compat

MAX_HOPS: Final = 200
"""Iterations of a busy loop after which a result is delivered anyway."""
PAUSE: Final = 0.003
"""Seconds between results for different threads, because idle threads cannot be detected."""


class ResultGate:
    """Delivers results one at a time."""

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._last: tuple[int, float] | None = None

    async def wait_async(self) -> None:
        """Wait in a task until its result may be delivered."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue()
        await queue.wait(loop)

    def wait(self) -> None:
        """Wait in a thread until its result may be delivered."""
        with self._lock:
            me = threading.get_ident()
            if self._last is not None and self._last[0] != me:
                time.sleep(max(0.0, self._last[1] + PAUSE - time.monotonic()))
            self._last = me, time.monotonic()


class _Queue:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pumping = False
        self._hops = 0

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._pumping:
            self._pumping = True
            self._hops = 0
            loop.call_soon(self._pump, loop)
        await turn

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hops += 1
        if self._hops < MAX_HOPS and not _idle(loop, self._hops):
            loop.call_soon(self._pump, loop)
            return
        self._hops = 0
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if self._waiting:
            loop.call_soon(self._pump, loop)
        else:
            self._pumping = False


def _idle(loop: asyncio.AbstractEventLoop, hops: int) -> bool:
    idle = compat.is_idle(loop)
    # Other loops do not expose their ready queue, so wait a fixed number of iterations.
    return idle if idle is not None else hops > 10
