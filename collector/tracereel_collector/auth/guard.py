"""Slows down those who try keys: an address that keeps guessing is not listened to for a while.

Nothing is held open: who must wait is told so at once (429, Retry-After). While an address waits,
only keys that were right from there before are looked at, so that one who guesses beside a customer
(behind the same proxy) cannot lock the customer out. Wrong tries are counted in a small file that
all workers share; which keys were right is remembered by each for itself, so that a request with a
known key never touches the file.
"""

import functools
import ipaddress
import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from tracereel_collector.auth.shared_file import SharedFile

FREE_TRIES: Final = 5
MAX_PENALTY_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 900.0
"""Without a wrong key for so long, an address begins anew."""
MAX_ADDRESSES: Final = 10_000
GOOD_KEYS: Final = 32
"""Right keys remembered of one address."""
GLOBAL_TRIES_PER_SECOND: Final = 100.0
"""Wrong keys looked at per second from all addresses together."""
_EVERYBODY: Final = ""
"""The row of all addresses together: its `tries` is the level of a bucket of debts."""
_TRIM_EVERY: Final = 1_000
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS tries"
    " (address TEXT PRIMARY KEY, tries REAL, last_try REAL) WITHOUT ROWID"
)
# Times are monotonic: one that lies ahead is from before the machine was started again.
_FAILED: Final = (
    "INSERT INTO tries VALUES (?1, 1, ?2) ON CONFLICT (address) DO UPDATE SET last_try = ?2,"
    " tries = iif(?2 - last_try NOT BETWEEN 0 AND ?3, 1, tries + 1)"
)
_FAILED_ALL: Final = (
    "INSERT INTO tries VALUES ('', 1, ?1) ON CONFLICT (address) DO UPDATE SET last_try = ?1,"
    " tries = max(0, tries - max(0, ?1 - last_try) * ?2) + 1"
)
_TRIM: Final = (
    "DELETE FROM tries WHERE address IN"
    " (SELECT address FROM tries WHERE address != '' ORDER BY last_try DESC LIMIT -1 OFFSET ?)"
)


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

    def __init__(self, path: Path | None = None) -> None:
        self._file = SharedFile(path, schema=_SCHEMA, what="wrong_keys")
        self._good: OrderedDict[str, OrderedDict[bytes, None]] = OrderedDict()
        self._failures = 0
        self._lock = threading.Lock()

    def wait(self, peer: str, digest: bytes, now: float) -> float:
        """Seconds until this key may be tried from there; 0 when it may now."""
        name = _name(peer)
        with self._lock:
            if digest in self._good.get(name, ()):
                return 0.0
        rows = self._file.run("SELECT * FROM tries WHERE address IN (?, '')", name)
        return max((_wait(row[0], row[1], row[2], now) for row in rows), default=0.0)

    def failed(self, peer: str, digest: bytes, now: float) -> None:
        """A key that is nobody's was tried."""
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
        """A right key came from there. It does not excuse wrong ones: a guesser may own a key too."""
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
        """Let go of the file; safe to call twice."""
        self._file.close()


def _name(peer: str) -> str:
    return group(peer) or "unknown"


def _wait(address: str, tries: float, last_try: float, now: float) -> float:
    since = now - last_try
    if address == _EVERYBODY:
        burst = 10 * GLOBAL_TRIES_PER_SECOND
        over = tries - max(0.0, since) * GLOBAL_TRIES_PER_SECOND - burst
        return max(over, 1e-9) / GLOBAL_TRIES_PER_SECOND if over >= 0 else 0.0
    over = tries - FREE_TRIES
    if over <= 0 or not 0 <= since <= FORGET_SECONDS:
        return 0.0
    penalty = min(MAX_PENALTY_SECONDS, math.ldexp(1.0, int(min(over - 1, 10))))
    return max(0.0, penalty - since)
