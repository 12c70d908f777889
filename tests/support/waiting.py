"""Waiting for a condition with a deadline; the only way to wait in tests."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FIRST_PAUSE = 0.01
LAST_PAUSE = 0.05
"""Seconds between two calls: many predicates ask a collector, and its answers delay what they wait for."""


def wait_until(predicate: Callable[[], T], timeout: float = 20.0, *, message: str = "") -> T:
    """Call `predicate` until it is true and return its value; fail after `timeout`."""
    deadline = time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout} s: {message or predicate!r}")
        time.sleep(pause)
        pause = min(LAST_PAUSE, pause * 1.2)
