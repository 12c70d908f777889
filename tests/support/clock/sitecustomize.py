"""Shifts the clocks of this process as a file says; Python loads it from PYTHONPATH.

The file holds two numbers of seconds: the shift of the wall clock alone, and the shift of both wall
clock and boot clock. The second is optional; its default is 0.
"""

import os
import time

_FILE = os.environ.get("TRACEREEL_TEST_CLOCK", "")
_SECOND = 1_000_000_000
_time, _time_ns, _clock_gettime_ns = time.time, time.time_ns, time.clock_gettime_ns


def _shifts():
    try:
        with open(_FILE, encoding="ascii") as file:
            wall, passed = [*map(int, file.read().split()), 0, 0][:2]
            return wall + passed, passed
    except OSError:
        return 0, 0


def _boot_gettime_ns(clock):
    passed = _shifts()[1] if clock == time.CLOCK_BOOTTIME else 0
    return _clock_gettime_ns(clock) + passed * _SECOND


if _FILE:
    time.time = lambda: _time() + _shifts()[0]
    time.time_ns = lambda: _time_ns() + _shifts()[0] * _SECOND
    time.clock_gettime_ns = _boot_gettime_ns
