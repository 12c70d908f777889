"""Deterministic time and ids for tests, patched into the SDK's modules only.

The program under test keeps its clock: only the name `time` inside `tracereel` is replaced.
"""

import sys
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final

from tracereel._runtime import clock as _clock

_EXCEPT: Final = frozenset(
    {
        "tracereel._export.collector_connection",
        "tracereel._telemetry.delivery_slo",
        "tracereel._export.heartbeat",
        "tracereel._export.span_exporter",
        "tracereel._export.otlp",
        "tracereel._export.sender",
        "tracereel._export.shipper",
        "tracereel.testing",
    }
)
"""Modules that keep real time, because delivery waits in real time."""


class StepClock:
    """Clock that advances by one step per reading, or by `advance`.

    Args:
        start: first time returned; default 2026-01-01 00:00 UTC.
        step_ms: milliseconds per reading; 0 stops the clock between calls of `advance`.
    """

    def __init__(self, start: datetime | None = None, *, step_ms: float = 1.0) -> None:
        begin = start if start is not None else datetime(2026, 1, 1, tzinfo=UTC)
        self._now = round(begin.timestamp() * 1_000_000) * 1_000
        self._step = round(step_ms * 1_000_000)
        self._lock = threading.Lock()

    def time_ns(self) -> int:
        """Return the time in nanoseconds since 1970, then advance by one step."""
        with self._lock:
            now = self._now
            self._now += self._step
            return now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        with self._lock:
            self._now += round(seconds * 1e9)


class _SteppedTime:
    """Module `time` with a replaced clock; sleeping and deadlines stay real."""

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
    """Deterministic id generator that counts from 1."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def getrandbits(self, bits: int) -> int:
        with self._lock:
            self._last += 1
            return self._last & ((1 << bits) - 1)

    def seed(self) -> None:
        """Do nothing: a forked child continues to count."""


class TestingPatches:
    """Patches that are active while a test recorder is active."""

    def __init__(self, clock: StepClock | None, *, fixed_ids: bool) -> None:
        self._clock = clock
        self._fixed_ids = fixed_ids
        self._undo = ExitStack()

    def apply(self) -> None:
        """Apply the patches."""
        if self._clock is not None:
            stepped = _SteppedTime(self._clock)
            for name, module in list(sys.modules.items()):
                ours = name.startswith("tracereel.") and name not in _EXCEPT | {__name__}
                if ours and getattr(module, "time", None) is time:
                    self._replace(module, "time", stepped)
        if self._fixed_ids:
            self._replace(_clock, "_random", _CountedBits())

    def undo(self) -> None:
        """Restore the original values."""
        self._undo.close()

    def _replace(self, module: Any, name: str, value: Any) -> None:
        self._undo.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, value)
