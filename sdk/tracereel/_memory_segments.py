"""Segments of a spool that could not be put on disk: unnamed files, gone with the process.

The writer of a spool writes to a descriptor and its reader reads by segment number: neither cares
what is behind. A segment has two descriptors, so that each side may be done with it in its own time.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from tracereel import _guard, _native

MAX_BYTES: Final = 8 * 1024 * 1024
SEGMENT_BYTES: Final = MAX_BYTES // 8
"""Memory is given back a segment at a time."""


class MemorySegments:
    """The segments of one emitter that are in memory, by number."""

    def __init__(self) -> None:
        self._lock = _native.Lock()
        self._files: dict[int, int] = {}
        self.only = True
        """Whether the emitter has no segment on disk, and never had."""

    def open(self, number: int) -> int:
        """Begin a segment; the descriptor to write to, to be closed by the writer.

        Raises:
            OSError: there is no memory, or no descriptor, to be had.
        """
        file = _unnamed_file()
        try:
            # A line that was cut short is taken back by truncating: writes go to the end there is.
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
            writer = os.dup(file)
        except OSError:
            os.close(file)
            raise
        with self._lock:
            self._files[number] = file
        return writer

    def numbers(self) -> list[int]:
        """The segments there are, in order."""
        with self._lock:
            return sorted(self._files)

    def read(self, number: int, size: int, offset: int) -> bytes | None:
        """Some bytes of a segment; null if it is not here."""
        with self._lock:
            file = self._files.get(number)
            return None if file is None else os.pread(file, size, offset)

    def remove(self, number: int) -> int | None:
        """Give the memory of a segment back; its size, or null if it is not here."""
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
        """Give everything back."""
        for number in self.numbers():
            self.remove(number)

    def disown(self) -> None:
        """In a forked child: let go of the parent's descriptors, whoever held the lock there."""
        self._lock = _native.Lock()
        self.clear()


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tracereel-spool")
    # Elsewhere the directory for temporary files may do where the spool's does not.
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())


def warn_of_memory(directory: Path, trouble: OSError) -> None:
    """Say once why events are in memory, and what that means."""
    _guard.warn_once(
        "spool:memory",
        "tracereel: the spool %s cannot be used (%s): events wait in memory, %d MiB at most, and are"
        " lost with the process (TRACEREEL_SPOOL_DIR)",
        directory,
        trouble.strerror or trouble,
        MAX_BYTES // (1024 * 1024),
    )
