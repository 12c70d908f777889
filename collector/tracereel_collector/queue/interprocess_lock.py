"""File lock that serialises queue writers across processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class InterprocessLock:
    """Lock between processes. The kernel wakes the next waiter and frees it if the holder dies.

    SQLite's own lock would be correct, but its waiters sleep and poll.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Hold the lock within the block."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        os.close(self._descriptor)
