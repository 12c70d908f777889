"""File locks between processes; the kernel wakes the next waiter and frees them if the holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Open a lock file; closing it releases its locks."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file exclusively within the block.

    Raises:
        BlockingIOError: another process holds it and `wait` is False.
    """
    with lock_file(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
