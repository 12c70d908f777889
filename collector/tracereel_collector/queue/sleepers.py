"""Threads that sleep until something is so: each is woken for its own reason, not for every change.

Delivery has a thread for each kind of data. Waking all of them whenever anything was appended cost
the thread that takes requests a tenth of its time, in switches between threads.
"""

import threading
from collections.abc import Callable

IsSo = Callable[[], bool]


class Sleepers:
    """Who sleeps, and what for; the conditions are cheap and look at what others change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sleeping: dict[threading.Event, IsSo] = {}

    def sleep_until(self, is_so: IsSo, *, timeout: float) -> None:
        """Return at once if it is so, else when somebody looked and found it so, or after a time."""
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
        """Something has changed: wake those who sleep for it."""
        with self._lock:
            for woken, is_so in self._sleeping.items():
                if is_so():
                    woken.set()
