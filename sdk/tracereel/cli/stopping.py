"""Ending a command at a signal, at once and only where it waits, never in the middle of work."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end; what it interrupts was cancelled, it did not fail."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Stopper:
    """Turns SIGINT and SIGTERM into `Stopped`, raised from its own waits.

    A handler that raised wherever it happened to run could tear a write or leave a lock held.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._waiting = False

    @contextmanager
    def watching(self) -> Iterator["Stopper"]:
        """Handle the signals inside the block; afterwards the earlier handlers are back."""
        earlier = [(number, signal.signal(number, self._handle)) for number in SIGNALS]
        try:
            yield self
        finally:
            for number, handler in earlier:
                signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A signal inside the block raises `Stopped` there."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        """Wait; a signal now or since the last wait raises `Stopped`."""
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
