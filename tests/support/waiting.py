"""Waiting for a condition with a deadline; the only way to wait in tests."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], timeout: float = 20.0, *, message: str = "") -> T:
    """Call `predicate` until it is true and return its value; fail after `timeout`."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout} s: {message or predicate!r}")
        time.sleep(0.01)
