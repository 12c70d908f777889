"""Slows down addresses that send invalid keys.

No request is delayed: refused clients get 429 with Retry-After at once. While an address is blocked,
only keys that were valid from there before are checked, so that an attacker behind the same proxy
cannot lock out a customer. Wrong keys are counted in a small file that all workers share. Valid keys
are cached by each worker, so that a request with a known key never reads the file.
"""

import functools
import ipaddress
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tracereel_collector.auth.shared_file import SharedFile
from tracereel_collector.runtime.clock.sources import boot_id

FREE_TRIES: Final = 5
MAX_PENALTY_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 900.0
"""An address without a wrong key for so long starts again from zero."""
MAX_ADDRESSES: Final = 10_000
GOOD_KEYS: Final = 32
"""Most valid keys cached per address."""
GLOBAL_TRIES_PER_SECOND: Final = 100.0
"""Most wrong keys checked per second from all addresses together."""
_EVERYBODY: Final = ""
"""Address of the row for all addresses; its `tries` is the level of a leaky bucket."""
_TRIM_EVERY: Final = 1_000
_COLUMNS: Final = "address TEXT PRIMARY KEY, tries REAL, last_try REAL"
# A time may be a little ahead of now: workers read the clock before they wait for the file.
_FAILED: Final = (
    "INSERT INTO tries VALUES (?1, 1, ?2) ON CONFLICT (address) DO UPDATE"
    " SET last_try = max(last_try, ?2), tries = iif(?2 - last_try > ?3, 1, tries + 1)"
)
_FAILED_ALL: Final = (
    "INSERT INTO tries VALUES ('', 1, ?1) ON CONFLICT (address) DO UPDATE"
    " SET last_try = max(last_try, ?1), tries = max(0, tries - max(0, ?1 - last_try) * ?2) + 1"
)
_TRIM: Final = (
    "DELETE FROM tries WHERE address IN"
    " (SELECT address FROM tries WHERE address != '' ORDER BY last_try DESC LIMIT -1 OFFSET ?)"
)


@functools.lru_cache(maxsize=4096)
def group(peer: str) -> str:
    """Return the group that counts as one address: an IPv6 client can use a whole /64."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer[:64]
    if address.version == 4:
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class GuessingGuard:
    """Bounded, thread-safe record of wrong keys by address."""

    def __init__(self, path: Path | None = None, *, boot_id: Callable[[], str] = boot_id) -> None:
        self._file = SharedFile(
            path, table="tries", columns=_COLUMNS, what="wrong_keys", boot_id=boot_id
        )
        self._good: OrderedDict[str, OrderedDict[bytes, None]] = OrderedDict()
        self._failures = 0
        self._lock = threading.Lock()

    def wait(self, peer: str, digest: bytes, now: float) -> float:
        """Return the seconds until this key may be tried from this address; 0 means now."""
        name = _name(peer)
        with self._lock:
            if digest in self._good.get(name, ()):
                return 0.0
        rows = self._file.run("SELECT * FROM tries WHERE address IN (?, '')", name)
        return max((_wait(row[0], row[1], row[2], now) for row in rows), default=0.0)

    def failed(self, peer: str, digest: bytes, now: float) -> None:
        """Record a wrong key."""
        name = _name(peer)
        with self._lock:
            if name in self._good:
                self._good[name].pop(digest, None)
            self._failures += 1
            trim = self._failures % _TRIM_EVERY == 0
        self._file.run(_FAILED, name, now, FORGET_SECONDS)
        self._file.run(_FAILED_ALL, now, GLOBAL_TRIES_PER_SECOND)
        if trim:
            self._file.run(_TRIM, MAX_ADDRESSES)

    def succeeded(self, peer: str, digest: bytes) -> None:
        """Record a valid key; wrong keys still count, since an attacker may own a key too."""
        with self._lock:
            good = self._good.setdefault(_name(peer), OrderedDict())
            good[digest] = None
            good.move_to_end(digest)
            if len(good) > GOOD_KEYS:
                good.popitem(last=False)
            self._good.move_to_end(_name(peer))
            if len(self._good) > MAX_ADDRESSES:
                self._good.popitem(last=False)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def _name(peer: str) -> str:
    return group(peer) or "unknown"


def _wait(address: str, tries: float, last_try: float, now: float) -> float:
    since = max(0.0, now - last_try)
    if address == _EVERYBODY:
        burst = 10 * GLOBAL_TRIES_PER_SECOND
        over = tries - since * GLOBAL_TRIES_PER_SECOND - burst
        return max(over, 1e-9) / GLOBAL_TRIES_PER_SECOND if over >= 0 else 0.0
    over = tries - FREE_TRIES
    if over <= 0 or since > FORGET_SECONDS:
        return 0.0
    penalty = min(MAX_PENALTY_SECONDS, math.ldexp(1.0, int(min(over - 1, 10))))
    return max(0.0, penalty - since)
