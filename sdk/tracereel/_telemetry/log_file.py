"""Rotating log file for many short lines and several processes.

The standard library's rotating handler formats each line twice and stats the path each time. This
handler buffers lines briefly and writes them with a single append, so that lines of processes that
share the file never mix. An error is written immediately, together with the buffered lines. A
killed process loses its buffered log lines, but not the events behind them.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from tracereel._runtime import gevent_compat
from tracereel._runtime.wakeup import Wakeup

GATHER_SECONDS: Final = 0.1
"""Maximum seconds that a line is buffered."""
GATHER_LINES: Final = 256

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MODE: Final = 0o600
"""File mode; lines contain summaries of agent inputs, so only the owner may read them."""


class EventFile(logging.Handler):
    """Handler that appends the message of each record as a line."""

    def __init__(self, path: str | Path, *, max_bytes: int, backups: int) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        super().__init__()
        self._path = Path(str(path).replace("{pid}", str(os.getpid()))).absolute()
        self._max_bytes = max_bytes
        # The lines of one write go into one file, so a small file limits the buffer.
        self._gather_lines = GATHER_LINES
        if max_bytes > 0:
            self._gather_lines = min(GATHER_LINES, max_bytes // 1024)
        self._backups = max(backups, 0)
        self._file = -1
        self._size = self._inode = 0
        # Re-entrant: a signal handler may log while its thread holds the lock.
        self._turn = gevent_compat.RLock()
        self._forget_gathered()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._open()
        _files.add(self)

    def _forget_gathered(self) -> None:
        self._gathered: list[tuple[Callable[..., bytes], tuple[Any, ...]]] = []
        self._writer: gevent_compat.Thread | None = None
        self._there_are_lines = Wakeup()

    def forget_parent(self) -> None:
        """Discard the parent's buffered lines and writer thread in a forked child."""
        self._turn = gevent_compat.RLock()
        self._forget_gathered()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; disk errors go to `handleError`, as in standard handlers."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace")
            self.write_later(bytes, (line,), at_once=record.levelno >= logging.ERROR)
        except Exception:  # noqa: BLE001
            self.handleError(record)

    def write_later(
        self, render: Callable[..., bytes], given: tuple[Any, ...], *, at_once: bool = False
    ) -> None:
        """Buffer a line that is rendered when it is written, without a LogRecord.

        Raises:
            OSError: the buffered lines could not be written; they are lost.
        """
        with self._turn:
            self._gathered.append((render, given))
            if at_once or len(self._gathered) > self._gather_lines:
                self._write()
            elif len(self._gathered) == 1:
                if self._writer is None and not self._start():
                    self._write()
                self._there_are_lines.set()

    def flush(self) -> None:
        """Write the buffered lines."""
        with self._turn:
            self._write()

    def close(self) -> None:
        """Close the file; a later record opens it again."""
        with self._turn:
            try:
                self._write()
            except OSError:
                logging.getLogger("tracereel").warning("the last log lines could not be written")
            self._close()
        super().close()

    def _start(self) -> bool:
        """Start the writer thread; return False if no thread can be started."""
        writer = self._writer = gevent_compat.thread(self._write_now_and_then, name="tracereel-log")
        try:
            writer.start()
        except RuntimeError:
            self._writer = None
        return self._writer is not None

    def _write_now_and_then(self) -> None:
        while True:
            if not self._there_are_lines.wait(3600.0):
                continue
            Wakeup().wait(GATHER_SECONDS)
            self._there_are_lines.clear()
            try:
                self.flush()
            except Exception:  # noqa: BLE001 - like the standard library's handlers
                self.handleError(logging.makeLogRecord({"msg": "lines of events are lost"}))

    def _write(self) -> None:
        waiting, self._gathered = self._gathered, []
        if waiting:
            lines = [render(*given) for render, given in waiting]
            lines.append(b"")
            data = b"\n".join(lines)
            self._make_room(len(data))
            self._size += os.write(self._file, data)

    def _make_room(self, coming: int) -> None:
        if self._file < 0 or self._moved():
            self._open()
        if self._size and 0 < self._max_bytes < self._size + coming:
            # Closing the file releases the lock.
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if not self._moved():  # else another process has already rotated it
                self._rename()
            self._open()

    def _moved(self) -> bool:
        """Return whether the path names another file by now; otherwise update the size."""
        try:
            there = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            return True
        self._size = there.st_size
        return there.st_ino != self._inode

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
        opened = os.fstat(self._file)
        self._size, self._inode = opened.st_size, opened.st_ino

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)


_files: Final[WeakSet[EventFile]] = WeakSet()


def _after_fork() -> None:
    for file in list(_files):
        file.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
