"""A log file that is renamed when it is full, made for many short lines and several processes.

The standard library's rotating handler formats each line twice and looks the path up each time. This
one writes a line with a single append, so that lines of processes that share the file never mix, and
looks now and then whether another process has renamed it.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MODE: Final = 0o600
"""Lines carry summaries of what agents were asked: for the owner only."""
_CHECK_EVERY: Final = 64
"""Lines between two looks at the file: its size with what others wrote, its name."""


class EventFile(logging.Handler):
    """Appends the message of each record as a line."""

    def __init__(self, path: str | Path, *, max_bytes: int, backups: int) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        super().__init__()
        self._path = Path(str(path).replace("{pid}", str(os.getpid()))).absolute()
        self._max_bytes = max_bytes
        self._backups = max(backups, 0)
        self._file = -1
        self._size = 0
        self._written = 0
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; trouble with the disk goes the way of the standard library's handlers."""
        try:
            self.write_line(self.format(record).encode("utf-8", "backslashreplace"))
        except Exception:  # noqa: BLE001
            self.handleError(record)

    def write_line(self, line: bytes) -> None:
        """Write a line that needs no formatting, without the price of a record.

        Raises:
            OSError: the disk refuses.
        """
        self.acquire()
        try:
            self._make_room(len(line) + 1)
            self._size += os.write(self._file, line + b"\n")
        finally:
            self.release()

    def close(self) -> None:
        """Close the file; a record that still comes opens it again."""
        self.acquire()
        try:
            self._close()
        finally:
            self.release()
        super().close()

    def _make_room(self, coming: int) -> None:
        self._written += 1
        if self._file < 0:
            self._open()
        elif self._written % _CHECK_EVERY == 0:
            if self._moved():
                self._open()
            self._size = os.fstat(self._file).st_size
        if self._size and 0 < self._max_bytes < self._size + coming:
            # Closing the file gives the lock up.
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if not self._moved():  # else another process was first, and the new file is there
                self._rename()
            self._open()

    def _moved(self) -> bool:
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file).st_ino  # noqa: PTH116
        except FileNotFoundError:
            return True

    def _rename(self) -> None:
        for number in range(self._backups - 1, 0, -1):
            older = self._backup(number)
            if older.exists():
                older.replace(self._backup(number + 1))
        if self._backups:
            self._path.replace(self._backup(1))
        else:
            self._path.unlink(missing_ok=True)

    def _backup(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _open(self) -> None:
        self._close()
        self._file = os.open(self._path, _FLAGS, _MODE)
        self._size = os.fstat(self._file).st_size

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)
