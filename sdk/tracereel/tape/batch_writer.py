"""Background thread that batches tape writes.

A tape that has not written recently writes at once. Otherwise this thread writes it after `MOMENT`
seconds, so calls that end within milliseconds share a write.
"""

import os
import time
import weakref
from typing import Any, Final

from tracereel._core import recorder as _recorder
from tracereel._runtime import gevent_compat, guard
from tracereel._runtime.wakeup import Wakeup

MOMENT: Final = 0.01
"""Longest delay, in seconds, before a finished call is written."""


class Gatherer:
    """Thread that writes pending tapes; started when the first tape is added."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._in_child)

    def _forget(self) -> None:
        self._lock = gevent_compat.RLock()
        self._bell = Wakeup()
        self._thread: gevent_compat.Thread | None = None
        self._waiting: set[Any] = set()

    def _in_child(self) -> None:
        """Drop pending tapes in a forked child; the parent writes them."""
        self._forget()
        for tape in list(_tapes):
            tape.disown()

    def add(self, tape: Any) -> None:
        """Schedule a tape for writing."""
        self._waiting.add(tape)
        if self._thread is None:
            self.start()
        self._bell.set()

    def write(self) -> None:
        """Write all pending tapes now."""
        waiting = self._waiting
        while waiting:
            try:
                tape = waiting.pop()
            except KeyError:  # the thread took the last tape
                return
            with guard.Guard("tape"):
                tape.write()

    def start(self) -> None:
        """Start the thread if it is not running."""
        with self._lock:
            if self._thread is None:
                thread = self._thread = gevent_compat.thread(self._run, name="tracereel-tapes")
                try:
                    thread.start()
                except RuntimeError:
                    self._thread = (
                        None  # the interpreter is shutting down: the end of the run writes
                    )

    def _run(self) -> None:
        bell = self._bell
        while True:
            bell.wait(3600.0)
            _sleep(MOMENT)
            bell.clear()
            self.write()


_sleep: Final = time.sleep
"""The real `time.sleep`; a replay replaces it to skip sleeps."""
_tapes: Final["weakref.WeakSet[Any]"] = weakref.WeakSet()
_gatherer: Final = Gatherer()
soon: Final = _gatherer.add
start: Final = _gatherer.start
_recorder.before_flush.append(_gatherer.write)


def know(tape: Any) -> None:
    """Register a tape, so that a forked child disowns it."""
    _tapes.add(tape)
