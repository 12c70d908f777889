"""Shared lock of store writers across processes, with an exclusive mode that pauses them."""

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.runtime.file_lock import lock_file

LOOK_SECONDS = 0.02
_NEVER = threading.Event()


class StoreWriters:
    """Fair read-write lock of two lock files, which the kernel frees if the holder dies.

    Writers hold the door briefly, then the room. A pause locks the door first and then waits for the
    room, so a steady stream of writers cannot starve it.
    """

    def __init__(self, directory: Path) -> None:
        self._door = directory / "writers-door"
        self._room = directory / "writers-room"

    @contextmanager
    def writing(
        self, *, timeout: float | None = None, stop: threading.Event = _NEVER
    ) -> Iterator[bool]:
        """Hold the lock shared; yield False if `timeout` passed or `stop` was set before."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with lock_file(self._door) as door, lock_file(self._room) as room:
            may_write = _locked(door, fcntl.LOCK_SH, deadline, stop) and _locked(
                room, fcntl.LOCK_SH, deadline, stop
            )
            fcntl.flock(door, fcntl.LOCK_UN)
            yield may_write

    @contextmanager
    def paused(self, *, timeout: float) -> Iterator[None]:
        """Hold the lock exclusively: no process changes the store within the block."""
        deadline = time.monotonic() + timeout
        with lock_file(self._door) as door, lock_file(self._room) as room:
            if not (
                _locked(door, fcntl.LOCK_EX, deadline, _NEVER)
                and _locked(room, fcntl.LOCK_EX, deadline, _NEVER)
            ):
                raise ServiceUnavailableError(
                    f"the store was still being written to after {timeout:g} s",
                    hint="does the store answer? see GET /readyz/query",
                )
            yield


def _locked(descriptor: int, how: int, deadline: float | None, stop: threading.Event) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if deadline is not None and time.monotonic() > deadline:
                return False
            if stop.wait(LOOK_SECONDS):
                return False
        else:
            return True
