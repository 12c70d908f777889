"""Slows down those who try keys: an address that keeps guessing is not listened to for a while.

Nothing is held open: who must wait is told so at once (429, Retry-After). While an address waits,
only keys that were right from there before are looked at, so that one who guesses beside a customer
(behind the same proxy) cannot lock the customer out.
"""

import functools
import ipaddress
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from tracereel_collector.auth.limits import TokenBucket

FREE_TRIES: Final = 5
MAX_PENALTY_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 900.0
"""Without a wrong key for so long, an address begins anew."""
MAX_ADDRESSES: Final = 10_000
GOOD_KEYS: Final = 32
"""Right keys remembered of one address."""
GLOBAL_TRIES_PER_SECOND: Final = 100.0
"""Wrong keys looked at per second from all addresses together."""


@dataclass(slots=True)
class _Address:
    tries: int = 0
    last_try: float = 0.0
    waits_until: float = 0.0
    good: "OrderedDict[bytes, None]" = field(default_factory=OrderedDict)


@functools.lru_cache(maxsize=4096)
def group(peer: str) -> str:
    """What counts as one address: an IPv6 user has a whole /64 to guess from."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer[:64]
    if address.version == 4:
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Guard:
    """Remembers wrong tries by address, boundedly; safe to use from any thread."""

    def __init__(self, *, now: float) -> None:
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._all = TokenBucket(
            rate=GLOBAL_TRIES_PER_SECOND, burst=10 * GLOBAL_TRIES_PER_SECOND, now=now
        )
        self._lock = threading.Lock()

    def wait(self, peer: str, digest: bytes, now: float) -> float:
        """Seconds until this key may be tried from there; 0 when it may now."""
        with self._lock:
            address = self._addresses.get(group(peer))
            if address is not None and digest in address.good:
                return 0.0
            own = address.waits_until - now if address is not None else 0.0
            return max(own, self._all.wait(now), 0.0)

    def failed(self, peer: str, digest: bytes, now: float) -> None:
        """A key that is nobody's was tried."""
        with self._lock:
            address = self._address(peer)
            if now - address.last_try > FORGET_SECONDS:
                address.tries = 0
            address.good.pop(digest, None)
            address.tries += 1
            address.last_try = now
            over = address.tries - FREE_TRIES
            if over > 0:
                address.waits_until = now + min(MAX_PENALTY_SECONDS, 2.0 ** min(over - 1, 10))
            self._all.take(1, now)

    def succeeded(self, peer: str, digest: bytes) -> None:
        """A right key came from there. It does not excuse wrong ones: a guesser may own a key too."""
        with self._lock:
            good = self._address(peer).good
            good[digest] = None
            good.move_to_end(digest)
            if len(good) > GOOD_KEYS:
                good.popitem(last=False)

    def _address(self, peer: str) -> _Address:
        name = group(peer)
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address()
            if len(self._addresses) > MAX_ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(name)
        return address
