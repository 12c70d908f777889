"""Threads that wait for conditions, each woken only when its own condition holds.

Delivery has a thread for each kind of data. Waking all of them at every append cost the request
thread a tenth of its time in context switches.
"""

import threading
from collections.abc import Callable

IsSo = Callable[[], bool]


class Sleepers:
    """Waiting threads and their conditions, which must be cheap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sleeping: dict[threading.Event, IsSo] = {}

    def sleep_until(self, is_so: IsSo, *, timeout: float) -> None:
        """Return when the condition holds, or after `timeout` seconds."""
        woken = threading.Event()
        with self._lock:
            if is_so():
                return
            self._sleeping[woken] = is_so
        try:
            woken.wait(timeout)
        finally:
            with self._lock:
                del self._sleeping[woken]

    def look(self) -> None:
        """Check the conditions and wake the threads whose condition holds."""
        with self._lock:
            for woken, is_so in self._sleeping.items():
                if is_so():
                    woken.set()
