"""Unnamed files that pass insert data to the engine; a few are kept and overwritten.

Allocating memory pages is expensive on virtual machines (several microseconds each). A kept file
reuses its pages.
"""

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

KEPT_FILES = 2
KEPT_BYTES = 32 * 1024 * 1024
"""Maximum size of a kept file; larger ones are closed."""


class InsertFiles:
    """Lends files; keeps those of successful inserts for reuse."""

    def __init__(self) -> None:
        self._kept: list[IO[bytes]] = []
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, pieces: Iterable[bytes]) -> Iterator[int]:
        """Yield the descriptor of a file that holds exactly these bytes."""
        file = self._take()
        good = False
        try:
            size = sum(_write_all(file, piece) for piece in pieces)
            file.truncate(size)  # remove the rest of an earlier, longer insert
            yield file.fileno()
            good = size <= KEPT_BYTES
        finally:
            # After a failure the engine may still read the file, so it must not be overwritten.
            self._give_back(file, keep=good)

    def _take(self) -> IO[bytes]:
        with self._lock:
            if self._kept:
                file = self._kept.pop()
                file.seek(0)
                return file
        return _unnamed_file()

    def _give_back(self, file: IO[bytes], *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._kept) < KEPT_FILES:
                self._kept.append(file)
                return
        file.close()


def _write_all(file: IO[bytes], piece: bytes) -> int:
    """Write all bytes; an unbuffered file may accept fewer per call."""
    written = file.write(piece)
    while written < len(piece):
        written += file.write(memoryview(piece)[written:])
    return written


def _unnamed_file() -> IO[bytes]:
    """Open a file in memory if the system can, else in the working directory."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("insert"), "w+b", buffering=0)
    return tempfile.TemporaryFile(dir=".", buffering=0)
