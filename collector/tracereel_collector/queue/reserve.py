"""A file kept for bad days: given up when the disk is full, so that deletes and commits still fit."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_SECONDS = 0.25


class FreeSpace:
    """How much of the disk is free, asked a few times a second at most."""

    def __init__(self, folder: Path, ask: Callable[[], int] | None = None) -> None:
        self._ask = ask or (lambda: shutil.disk_usage(folder).free)
        self._looked_at = float("-inf")
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes free for us, as of a moment ago."""
        if time.monotonic() - self._looked_at > LOOK_EVERY_SECONDS:
            self._bytes = self._ask()
            self._looked_at = time.monotonic()
        return self._bytes


class Reserve:
    """Some megabytes of real disk blocks that can be handed back at once."""

    def __init__(self, path: Path, *, size: int) -> None:
        self._path = path
        self._size = size

    @property
    def kept(self) -> bool:
        """Whether the reserve is in place."""
        return self._path.exists()

    def keep(self) -> bool:
        """Take the reserve if the disk has room for it and as much again; True when it is held."""
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
        """Hand the blocks back."""
        self._path.unlink(missing_ok=True)
