"""Bounded resources that one tenant cannot use up: room is kept for the others.

The rule is that of dynamic thresholds in shared-memory switches (Choudhury and Hahne, 1998): a tenant
may hold at most a fixed multiple of the free amount. It needs no count of tenants, and every
additional busy tenant still gets a part of the rest.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import ThrottledError

SHARE: Final = "share"
FULL: Final = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePolicy:
    """Maximum share of one tenant, and the callback that counts refusals."""

    share: float = 0.5
    """Maximum share of the only busy tenant; 1 disables the limit."""
    has_several_tenants: Callable[[], bool] = lambda: False
    """While only one tenant has keys, it may use everything."""
    on_refused: Callable[[str, str], None] = lambda _resource, _reason: None

    @property
    def keeps_room(self) -> bool:
        """Whether shares are enforced now."""
        return self.share < 1 and self.has_several_tenants()

    def most(self, total: int) -> int:
        """Return the maximum amount that one tenant may hold."""
        return max(1, int(total * self.share)) if self.keeps_room else total

    def reason(self, *, held: int, used: int, total: int, amount: int) -> str | None:
        """Return why a tenant that holds `held` is refused `amount`, else None."""
        left = total - used - amount
        if not self.keeps_room:
            return FULL if left < 0 else None
        if held + amount > max(1, total * self.share):
            return SHARE
        if left < 0:
            return FULL
        # One more than the threshold, so that none of a few slots stays unused.
        return SHARE if held + amount > left * self.share / (1 - self.share) + 1 else None


ONE_TENANT: Final = SharePolicy()


class TenantShares:
    """Bounded resource shared by tenants; thread-safe."""

    def __init__(
        self,
        resource: str,
        total: int,
        policy: SharePolicy = ONE_TENANT,
        *,
        hint: str = "try again soon",
    ) -> None:
        self.resource = resource
        self.total = total
        self._hint = hint
        self._policy = policy
        self._lock = threading.Lock()
        self._used = 0
        self._held: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[Future[None]]] = OrderedDict()

    @property
    def used(self) -> int:
        """Amount that all tenants hold."""
        return self._used

    def held_by(self, tenant: str) -> int:
        """Return the amount that a tenant holds."""
        return self._held.get(tenant, 0)

    def take(self, tenant: str, amount: int = 1) -> None:
        """Take an amount without waiting.

        Raises:
            ThrottledError: the resource or the tenant's share is used up.
        """
        with self._lock:
            reason = self._reason(tenant, amount)
            if reason is None:
                self._add(tenant, amount)
                return
        raise self._refusal(tenant, reason)

    def give_back(self, tenant: str, amount: int = 1) -> None:
        """Return an amount; waiting tenants get it first."""
        with self._lock:
            self._used -= amount
            left = self._held[tenant] - amount
            if left:
                self._held[tenant] = left
            else:
                del self._held[tenant]
            granted = self._grant() if self._waiting else ()
        for waiter in granted:
            waiter.set_result(None)

    @contextmanager
    def holding(self, tenant: str, amount: int = 1) -> Iterator[None]:
        """Hold an amount within the block.

        Raises:
            ThrottledError: the resource or the tenant's share is used up.
        """
        self.take(tenant, amount)
        try:
            yield
        finally:
            self.give_back(tenant, amount)

    async def wait(self, tenant: str, *, seconds: float) -> None:
        """Wait for one and take it; waiting tenants are served in turn.

        Raises:
            ThrottledError: none became free in time.
        """
        with self._lock:
            if tenant not in self._waiting and self._reason(tenant, 1) is None:
                self._add(tenant, 1)
                return
            waiter: Future[None] = Future()
            self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(waiter)
        except BaseException as error:
            if not waiter.cancel():  # it was granted in the meantime
                self.give_back(tenant)
            else:
                self._forget(tenant, waiter)
            if isinstance(error, TimeoutError):
                raise self._refusal(tenant, self._reason(tenant, 1) or SHARE) from error
            raise

    @asynccontextmanager
    async def waited(self, tenant: str, *, seconds: float) -> AsyncIterator[None]:
        """Wait for one and hold it within the block.

        Raises:
            ThrottledError: none became free in time.
        """
        await self.wait(tenant, seconds=seconds)
        try:
            yield
        finally:
            self.give_back(tenant)

    def _reason(self, tenant: str, amount: int) -> str | None:
        return self._policy.reason(
            held=self._held.get(tenant, 0), used=self._used, total=self.total, amount=amount
        )

    def _add(self, tenant: str, amount: int) -> None:
        self._used += amount
        self._held[tenant] = self._held.get(tenant, 0) + amount

    def _grant(self) -> list["Future[None]"]:
        """Grant the free amount to waiting tenants, one each in turn."""
        granted: list[Future[None]] = []
        served = True
        while served:
            served = False
            for tenant in list(self._waiting):
                waiter = self._next(tenant)
                if waiter is not None:
                    self._add(tenant, 1)
                    granted.append(waiter)
                    served = True
        return granted

    def _next(self, tenant: str) -> "Future[None] | None":
        """Return a tenant's next waiter if it may proceed; requeue the tenant last."""
        waiting = self._waiting[tenant]
        while waiting and self._reason(tenant, 1) is None:
            waiter = waiting.popleft()
            if waiter.set_running_or_notify_cancel():
                self._waiting.move_to_end(tenant)
                if not waiting:
                    del self._waiting[tenant]
                return waiter
        if not waiting:
            del self._waiting[tenant]
        return None

    def _forget(self, tenant: str, waiter: "Future[None]") -> None:
        with self._lock:
            waiting = self._waiting.get(tenant)
            if waiting is not None and waiter in waiting:
                waiting.remove(waiter)
                if not waiting:
                    del self._waiting[tenant]

    def _refusal(self, tenant: str, reason: str) -> ThrottledError:
        self._policy.on_refused(self.resource, reason)
        what = f"{self.total} {self.resource.replace('_', ' ')}"
        if reason == FULL:
            return ThrottledError(f"{what} are in use, which is all there are", hint=self._hint)
        return ThrottledError(
            f"this tenant has {self.held_by(tenant)} of {what}: its share while other tenants have keys",
            hint=f"{self._hint}; TRACEREEL_TENANT_SHARE sets the share",
        )
