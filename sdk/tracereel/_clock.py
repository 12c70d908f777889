"""Time and identity: timestamps, sortable ids, the hybrid logical clock, derived trace ids."""

import hashlib
import os
import random
import re
import time
from datetime import UTC, datetime
from typing import Final

from tracereel import _native

MAX_DRIFT_SECONDS: Final = 900.0
"""A remote clock further ahead than this is not followed. Two clocks that are each wrong by five
minutes may be ten apart, and a chain of them must not stand on the edge."""

_HEX_TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{32}\Z")


_random: Final = random.Random()  # noqa: S311 - unique, not secret; apart from the program's seed
os.register_at_fork(after_in_child=_random.seed)

_second: tuple[int, str] = (0, "1970-01-01T00:00:00")
"""The second written last: formatting one costs more than the rest of an event's envelope."""


def rfc3339(unix_nano: int) -> str:
    """A moment as the contract writes it: UTC, microseconds, `Z`."""
    global _second
    seconds, rest = divmod(unix_nano, 1_000_000_000)
    known, written = _second
    if known != seconds:
        written = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
        _second = (seconds, written)
    # Six digits after a one that is left out: a format with a width would cost three times as much.
    return f"{written}.{str(1_000_000 + rest // 1_000)[1:]}Z"


def sortable_id(prefix: str) -> str:
    """A unique id that sorts by time of birth (the layout of UUIDv7, as hex behind a prefix)."""
    return f"{prefix}_{sortable_suffix()}"


def sortable_suffix() -> str:
    """What makes an id unique and sortable behind any prefix; ids of different kinds may share it."""
    return (time.time_ns() // 1_000_000 << 80 | _random.getrandbits(80)).to_bytes(16).hex()


def random_id(bits: int) -> int:
    """A random number that is not zero, for an id; the program's own random numbers stay as they are."""
    return _random.getrandbits(bits) or 1


def otel_trace_id(trace_id: str) -> str:
    """The 32 hex digits that stand for a trace id on OpenTelemetry surfaces.

    A trace id that already has that form stands for itself; any other is hashed. The collector's
    SQL computes the same.
    """
    if _HEX_TRACE_ID.match(trace_id):
        return trace_id.lower()
    return hashlib.sha256(trace_id.encode()).hexdigest()[:32]


class HybridClock:
    """A clock in nanoseconds that never goes back and moves past every clock it has heard of.

    One counter serves as physical and logical part: it is the wall clock, or one more than the last
    value where the wall clock has not advanced. 16 hex digits sort as text.
    """

    def __init__(self, max_drift: float = MAX_DRIFT_SECONDS) -> None:
        self._last = 0
        self._max_drift_ns = round(max_drift * 1e9)
        # Re-entrant: a signal handler may make a traced call while its own thread is in here.
        self._lock = _native.RLock()

    def tick(self) -> str:
        """The time of a new local event."""
        with self._lock:
            now = time.time_ns()
            if now <= self._last:
                now = self._last + 1
            self._last = now
        return now.to_bytes(8).hex()

    def observe(self, remote: str) -> None:
        """Move past a value that came with a message, unless its clock is far ahead of ours."""
        value = int(remote, 16)
        with self._lock:
            if value <= time.time_ns() + self._max_drift_ns:
                self._last = max(self._last, value)

    def copy(self) -> "HybridClock":
        """A clock that goes on from here, with a lock of its own (for a forked child)."""
        other = HybridClock()
        other._max_drift_ns = self._max_drift_ns
        other._last = self._last
        return other
