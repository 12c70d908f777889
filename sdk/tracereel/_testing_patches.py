"""Time and ids that repeat, put under the SDK's own modules only and taken away again.

The program under test keeps its clock: what is replaced is the name `time` inside `tracereel`.
"""

import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, Final

from tracereel import _clock

_EXCEPT: Final = frozenset(
    {
        "tracereel._connection",
        "tracereel._goals",
        "tracereel._heartbeat",
        "tracereel._other_spans",
        "tracereel._sender",
        "tracereel._shipper",
        "tracereel.testing",
    }
)
"""Delivery waits in real time."""


class StepClock:
    """A clock that moves by one step each time it is read, or when told to.

    Args:
        start: the first moment read; 2026-01-01 00:00 UTC if not given.
        step_ms: milliseconds per reading; 0 makes time stand still between `advance`.
    """

    def __init__(self, start: datetime | None = None, *, step_ms: float = 1.0) -> None:
        begin = start if start is not None else datetime(2026, 1, 1, tzinfo=UTC)
        self._now = round(begin.timestamp() * 1_000_000) * 1_000
        self._step = round(step_ms * 1_000_000)
        self._lock = threading.Lock()

    def time_ns(self) -> int:
        """The moment of now, in nanoseconds since 1970; moves on."""
        with self._lock:
            now = self._now
            self._now += self._step
            return now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._now += round(seconds * 1e9)


class _SteppedTime:
    """The module `time` with another clock in it; sleeping and deadlines stay real."""

    def __init__(self, clock: StepClock) -> None:
        self.time_ns = clock.time_ns
        self.perf_counter_ns = clock.time_ns

    def time(self) -> float:
        return self.time_ns() / 1e9

    def perf_counter(self) -> float:
        return self.time_ns() / 1e9

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _CountedBits:
    """In place of the random generator of ids: 1, 2, 3, …"""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def getrandbits(self, bits: int) -> int:
        with self._lock:
            self._last += 1
            return self._last & ((1 << bits) - 1)

    def seed(self) -> None:
        """A forked child goes on counting."""


class Patches:
    """What is replaced while a recorder for tests is in force."""

    def __init__(self, clock: StepClock | None, *, fixed_ids: bool) -> None:
        self._clock = clock
        self._fixed_ids = fixed_ids
        self._undo: list[tuple[Any, str, Any]] = []

    def apply(self) -> None:
        """Put them in place."""
        if self._clock is not None:
            stepped = _SteppedTime(self._clock)
            for name, module in list(sys.modules.items()):
                ours = name.startswith("tracereel.") and name not in _EXCEPT | {__name__}
                if ours and getattr(module, "time", None) is time:
                    self._replace(module, "time", stepped)
        if self._fixed_ids:
            self._replace(_clock, "_random", _CountedBits())

    def undo(self) -> None:
        """Restore what was there."""
        while self._undo:
            module, name, value = self._undo.pop()
            setattr(module, name, value)

    def _replace(self, module: Any, name: str, value: Any) -> None:
        self._undo.append((module, name, getattr(module, name)))
        setattr(module, name, value)
