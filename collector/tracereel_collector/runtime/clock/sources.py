"""System sources of time: wall clock, boot clock and boot id."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tracereel_collector.runtime.clock.state import ClockReading

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Clock that also counts while the machine sleeps, where available."""


def boot_clock_nano() -> int:
    """Return the nanoseconds since boot."""
    return time.clock_gettime_ns(_BOOT_CLOCK)


@cache
def boot_id() -> str:
    """Return the id of this boot; empty if the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSources:
    """Functions that read the system's clocks."""

    wall_nano: Callable[[], int] = time.time_ns
    boot_nano: Callable[[], int] = boot_clock_nano
    boot_id: Callable[[], str] = boot_id

    def read(self) -> ClockReading:
        """Read all clocks."""
        return ClockReading(
            wall_nano=self.wall_nano(), boot_nano=self.boot_nano(), boot_id=self.boot_id()
        )
