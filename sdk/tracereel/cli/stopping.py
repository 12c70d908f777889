"""Stopping a command by a signal, only while it waits."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the command; the interrupted work counts as cancelled, not failed."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Stopper:
    """Conversion of SIGINT and SIGTERM to `Stopped`, raised only while waiting.

    A handler that raises anywhere could interrupt a write or leave a lock held.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._waiting = False

    @contextmanager
    def watching(self) -> Iterator["Stopper"]:
        """Handle the signals inside of the block; restore the earlier handlers afterwards."""
        earlier = [(number, signal.signal(number, self._handle)) for number in SIGNALS]
        try:
            yield self
        finally:
            for number, handler in earlier:
                signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise `Stopped` if a signal arrives inside of the block."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        """Sleep; raise `Stopped` if a signal arrives or has arrived since the last sleep."""
        with self.interruptible():
            if self._signal is not None:
                raise Stopped(self._signal)
            time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signal = number
        if self._waiting:
            self._waiting = False
            raise Stopped(number)
