"""Spool segments in memory, for when the disk cannot be used; lost with the process.

Segments are unnamed files, so that writer and reader use descriptors as for segments on disk. Each
segment has two descriptors: writer and reader close theirs independently.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from tracereel._runtime import gevent_compat, guard

MAX_BYTES: Final = 8 * 1024 * 1024
SEGMENT_BYTES: Final = MAX_BYTES // 8
"""Size of a segment; memory is freed one segment at a time."""


class MemorySegments:
    """In-memory segments of one emitter, by number."""

    def __init__(self) -> None:
        self._lock = gevent_compat.Lock()
        self._files: dict[int, int] = {}
        self.only = True
        """Whether the emitter has never had a segment on disk."""

    def open(self, number: int) -> int:
        """Create a segment and return the descriptor to write to; the writer closes it.

        Raises:
            OSError: out of memory or descriptors.
        """
        file = _unnamed_file()
        try:
            # Append mode: after a partial line is truncated, writes must continue at the new end.
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
            writer = os.dup(file)
        except OSError:
            os.close(file)
            raise
        with self._lock:
            self._files[number] = file
        return writer

    def numbers(self) -> list[int]:
        """Return the segment numbers in order."""
        with self._lock:
            return sorted(self._files)

    def read(self, number: int, size: int, offset: int) -> bytes | None:
        """Return up to `size` bytes of a segment; None if not in memory."""
        with self._lock:
            file = self._files.get(number)
            return None if file is None else os.pread(file, size, offset)

    def remove(self, number: int) -> int | None:
        """Free a segment and return its size, or None if it is not in memory."""
        with self._lock:
            file = self._files.pop(number, None)
            if file is None:
                return None
            size = os.fstat(file).st_size
            os.close(file)
            return size

    @property
    def size(self) -> int:
        """Bytes in memory."""
        with self._lock:
            return sum(os.fstat(file).st_size for file in self._files.values())

    def clear(self) -> None:
        """Free all segments."""
        for number in self.numbers():
            self.remove(number)

    def disown(self) -> None:
        """Close the parent's descriptors in a forked child, with a new lock."""
        self._lock = gevent_compat.Lock()
        self.clear()


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tracereel-spool")
    # Without memfd, the temporary directory may still be writable.
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())


def warn_of_memory(directory: Path, trouble: OSError) -> None:
    """Warn once that events are kept in memory, and why."""
    guard.warn_once(
        "spool:memory",
        "tracereel: the spool %s cannot be used (%s): events wait in memory, %d MiB at most, and are"
        " lost with the process (TRACEREEL_SPOOL_DIR)",
        directory,
        trouble.strerror or trouble,
        MAX_BYTES // (1024 * 1024),
    )
