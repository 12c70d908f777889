"""Unnamed files that carry the data of inserts to the engine; a few are kept and written over.

Pages of memory are dear to get on virtual machines: a file that keeps its pages spares every insert
the price of getting as many as it has bytes, several microseconds each.
"""

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

KEPT_FILES = 2
KEPT_BYTES = 32 * 1024 * 1024
"""Of each: a larger one is given back to the system."""


class InsertFiles:
    """Lends files; those of inserts that went well are kept for the next."""

    def __init__(self) -> None:
        self._kept: list[IO[bytes]] = []
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, pieces: Iterable[bytes]) -> Iterator[int]:
        """The descriptor of a file that holds these bytes and nothing else."""
        file = self._take()
        good = False
        try:
            size = sum(_write_all(file, piece) for piece in pieces)
            file.truncate(size)  # what an earlier, longer insert left behind
            yield file.fileno()
            good = size <= KEPT_BYTES
        finally:
            # After a failure somebody may still look at it: such a file is never written over.
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
    """An unbuffered file may take less than it is given."""
    written = file.write(piece)
    while written < len(piece):
        written += file.write(memoryview(piece)[written:])
    return written


def _unnamed_file() -> IO[bytes]:
    """In memory where the system can, else in the working directory."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("insert"), "w+b", buffering=0)
    return tempfile.TemporaryFile(dir=".", buffering=0)
