"""Memory limit for checks of large bodies, apart from the received bytes."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tracereel_collector.errors import ThrottledError

WAIT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Waiter:
    size: int
    tenant: str
    granted: "asyncio.Future[None]"


class WorkingMemory:
    """Memory limit of all checks in one event loop; requests wait in order.

    A tenant that already holds memory gets at most half of the limit. A body larger than the limit is
    checked alone.
    """

    def __init__(self, limit: int, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._limit = limit
        self._wait_seconds = wait_seconds
        self._held: Counter[str] = Counter()
        self._waiters: deque[_Waiter] = deque()

    @asynccontextmanager
    async def hold(self, size: int, *, tenant: str) -> AsyncIterator[None]:
        """Wait for memory and hold it until the end of the block."""
        size = min(size, self._limit)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(size, tenant, loop.create_future())
        self._waiters.append(waiter)
        self._grant()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await waiter.granted
        except TimeoutError as error:
            raise ThrottledError(
                "too many large bodies are being checked", hint="try again soon"
            ) from error
        else:
            yield
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self._held[tenant] -= size
                self._held += Counter()  # remove tenants that hold nothing
            self._grant()

    def _grant(self) -> None:
        total = self._held.total()
        for waiter in list(self._waiters):
            if total + waiter.size > self._limit:
                return
            held = self._held[waiter.tenant]
            if held and held + waiter.size > self._limit // 2:
                continue
            self._waiters.remove(waiter)
            self._held[waiter.tenant] += waiter.size
            total += waiter.size
            if not waiter.granted.done():
                waiter.granted.set_result(None)
