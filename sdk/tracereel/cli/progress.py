"""Progress line on standard error; only on a terminal, removed at the end."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, TypeVar

from tracereel.cli.terminal import Terminal

Item = TypeVar("Item")
WAIT_SECONDS: Final = 0.4
"""Seconds before the line is shown; fast work shows none."""
EVERY_SECONDS: Final = 0.1
_TURNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_TURNS: Final = "|/-\\"
_BAR: Final = 24


class Progress:
    """Progress line in a background thread; the worker reports counts to it."""

    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._terminal = Terminal.of(stream)
        self._done: int | None = None
        self._total: int | None = None
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._drawn = False
        self._thread: threading.Thread | None = None
        if stream.isatty():
            self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)
            self._thread.start()

    def update(self, done: int, total: int | None) -> None:
        """Update the amount done, and the total if known."""
        self._done, self._total = done, total

    def collect(self, items: Iterable[Item], total: int) -> list[Item]:
        """Return the items as a list, and show how many of the total have come."""
        found = []
        for item in items:
            found.append(item)
            self.update(len(found), total)
        return found

    def stop(self) -> None:
        """Remove the line."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._drawn:
            self._write("\r\x1b[K")

    def line(self, turn: int) -> str:
        """Return the current text of the line."""
        turns = _TURNS if self._terminal.unicode else _PLAIN_TURNS
        parts = [turns[turn % len(turns)], self._label]
        if self._done is not None and self._total:
            share = min(1.0, self._done / self._total)
            full, empty = ("█", "░") if self._terminal.unicode else ("#", ".")
            filled = round(share * _BAR)
            parts += [full * filled + empty * (_BAR - filled), f"{share:4.0%}"]
        if self._done is not None:
            parts.append(f"{self._done:,}" + (f" of {self._total:,}" if self._total else ""))
        seconds = time.monotonic() - self._began
        parts.append(f"{seconds:.0f} s")
        return self._terminal.fit(" ".join(parts), self._terminal.width - 1)

    def _draw(self) -> None:
        turn = 0
        if self._stopping.wait(WAIT_SECONDS):
            return
        while not self._stopping.is_set():
            self._write(f"\r{self.line(turn)}\x1b[K")
            self._drawn = True
            turn += 1
            self._stopping.wait(EVERY_SECONDS)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._stopping.set()  # the stream is closed


@contextmanager
def progress(label: str, stream: TextIO | None = None) -> Iterator[Progress]:
    """Show a progress line while the block runs."""
    shown = Progress(label, stream or sys.stderr)
    try:
        yield shown
    finally:
        shown.stop()
