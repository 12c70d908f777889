"""State file of the trusted clock: replaced atomically, locked while it changes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tracereel_collector.runtime.clock.state import ClockState
from tracereel_collector.runtime.durable import sync

NAME: Final = "clock.json"
_LOCK: Final = "clock.lock"


class ClockFile:
    """Reads and writes the state in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / NAME
        self._lock = data_dir / _LOCK

    def load(self) -> ClockState | None:
        """Return the last saved state; None if missing or unreadable."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ClockState)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, state: ClockState) -> None:
        """Replace the state durably; call it while `locked`.

        Raises:
            OSError: it cannot be written; the last state stays.
        """
        part = self.path.with_suffix(".part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(state))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(self.path)
        sync(self.path.parent)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock that the collector and the command share.

        Raises:
            BlockingIOError: another process holds it and `wait` is False.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._lock, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield
        finally:
            os.close(descriptor)
