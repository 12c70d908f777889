"""Turns at the queue's file: processes that append queue up for it instead of asking again and again."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """A lock among processes; the kernel wakes the next in line and frees it when its holder dies.

    SQLite's own lock would do, but whoever finds it taken sleeps for a while and asks again.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for the turn, and have it until the block is left."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Take no more turns."""
        os.close(self._descriptor)
