"""Parts of tapes are written together: calls that follow each other within milliseconds share a write.

A tape that has written nothing for a while writes at once. Otherwise this thread has it write a moment
later, so that what waits is never older than that.
"""

import os
import time
import weakref
from typing import Any, Final

from tracereel import _guard, _native
from tracereel._bell import Bell

MOMENT: Final = 0.01
"""Seconds that the end of a call may wait for company."""


class Gatherer:
    """The thread that writes what waits; started by the first tape that has something to wait for."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._in_child)

    def _forget(self) -> None:
        self._lock = _native.RLock()
        self._bell = Bell()
        self._thread: _native.Thread | None = None
        self._waiting: set[Any] = set()

    def _in_child(self) -> None:
        """What waits belongs to the parent, which writes it."""
        self._forget()
        for tape in list(_tapes):
            tape.disown()

    def add(self, tape: Any) -> None:
        """Have a tape write soon."""
        self._waiting.add(tape)
        if self._thread is None:
            self.start()
        self._bell.set()

    def write(self) -> None:
        """Have everybody who waits write now."""
        waiting = self._waiting
        while waiting:
            try:
                tape = waiting.pop()
            except KeyError:  # the thread was faster
                return
            with _guard.Guard("tape"):
                tape.write()

    def start(self) -> None:
        """Begin, if that has not been done."""
        with self._lock:
            if self._thread is None:
                thread = self._thread = _native.thread(self._run, name="tracereel-tapes")
                try:
                    thread.start()
                except RuntimeError:
                    self._thread = (
                        None  # none so late in the life of a process: the run's end writes
                    )

    def _run(self) -> None:
        bell = self._bell
        while True:
            bell.wait(3600.0)
            _sleep(MOMENT)
            bell.clear()
            self.write()


_sleep: Final = time.sleep
"""The real one, also in a re-execution, where sleeps are skipped."""
_tapes: Final["weakref.WeakSet[Any]"] = weakref.WeakSet()
_gatherer: Final = Gatherer()
soon: Final = _gatherer.add
start: Final = _gatherer.start
write_all: Final = _gatherer.write


def know(tape: Any) -> None:
    """Have a forked child leave a tape alone."""
    _tapes.add(tape)
