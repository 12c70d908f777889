"""The lock of a store directory: one engine at a time, and the file says which."""

import fcntl
import os
import time
from datetime import UTC, datetime
from pathlib import Path


class StoreInUseError(Exception):
    """Another process holds the lock; the message names it."""


class StoreLock:
    """flock on a file that names its holder by pid and start time; any kind of death frees it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def acquire(
        cls, path: Path, *, wait_seconds: float, owner: str = "another engine"
    ) -> "StoreLock":
        """Waits for a predecessor that is about to die, then gives up and names it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
                os.close(descriptor)
                raise StoreInUseError(
                    f"{path.parent} is in use by {owner} "
                    f"({holder or 'holder unknown'}); stop it or choose another directory"
                ) from None
            break
        started = datetime.now(UTC).isoformat(timespec="seconds")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()}, started {started}\n".encode(), 0)
        return cls(path, descriptor)

    def release(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
