"""Lock of a store directory: one engine at a time. The lock file names its holder."""

import fcntl
import os
import time
from datetime import UTC, datetime
from pathlib import Path


class StoreInUseError(Exception):
    """Another process holds the lock; the message names it."""


class StoreLock:
    """flock on a file with the holder's pid and start time. It is released if the holder dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(
        cls, path: Path, *, wait_seconds: float, owner: str = "another engine"
    ) -> "StoreLock":
        """Wait for the lock up to `wait_seconds`, then raise StoreInUseError with its holder."""
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
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock and clear the file."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
