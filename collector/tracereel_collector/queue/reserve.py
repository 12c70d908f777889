"""Reserve file, deleted when the disk is full so that commits still fit."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_SECONDS = 0.25


class FreeSpace:
    """Free disk space, cached for `LOOK_EVERY_SECONDS`."""

    def __init__(self, folder: Path, ask: Callable[[], int] | None = None) -> None:
        self._ask = ask or (lambda: shutil.disk_usage(folder).free)
        self._looked_at = float("-inf")
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Free bytes, at most `LOOK_EVERY_SECONDS` old."""
        if time.monotonic() - self._looked_at > LOOK_EVERY_SECONDS:
            self._bytes = self._ask()
            self._looked_at = time.monotonic()
        return self._bytes


class Reserve:
    """File of allocated disk blocks that can be released at once."""

    def __init__(self, path: Path, *, size: int) -> None:
        self._path = path
        self._size = size

    @property
    def kept(self) -> bool:
        """Whether the reserve exists."""
        return self._path.exists()

    def keep(self) -> bool:
        """Create the reserve if twice its size is free; return whether it exists."""
        if self.kept:
            return True
        if shutil.disk_usage(self._path.parent).free < 2 * self._size:
            return False
        descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)
        return True

    def give_up(self) -> None:
        """Delete the reserve to release its blocks."""
        self._path.unlink(missing_ok=True)
