"""A file kept for bad days: given up when the disk is full, so that deletes and commits still fit."""

import os
import shutil
from pathlib import Path


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
