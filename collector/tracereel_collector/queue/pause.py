"""A pause for all who change the store: those who write come and go, one who needs it still waits."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracereel_collector.errors import UnavailableError

LOOK_SECONDS = 0.02
_NEVER = threading.Event()


class StoreWriters:
    """Two locks among processes, which the kernel frees when their holder dies.

    Everybody passes the door to get into the room. Who wants a pause closes the door first and then
    waits until the room is empty: writers that come and go all the time cannot keep him waiting.
    """

    def __init__(self, directory: Path) -> None:
        self._door = directory / "writers-door"
        self._room = directory / "writers-room"
        self._removal = directory / "writers-removal"

    @contextmanager
    def writing(
        self, *, timeout: float | None = None, stop: threading.Event = _NEVER
    ) -> Iterator[bool]:
        """Change the store in the block; False when the time was over, or `stop` set, before that."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with _opened(self._door) as door, _opened(self._room) as room:
            yield (
                _locked(door, fcntl.LOCK_SH, deadline, stop)
                and _locked(room, fcntl.LOCK_SH, deadline, stop)
                and _unlocked(door)
            )

    @contextmanager
    def removing(self, *, timeout: float) -> Iterator[bool]:
        """Rows may be removed in the block, besides by others: nothing is filled in meanwhile."""
        with _opened(self._removal) as removal:
            yield _locked(removal, fcntl.LOCK_SH, time.monotonic() + timeout, _NEVER)

    @contextmanager
    def filling(self, *, timeout: float, stop: threading.Event = _NEVER) -> Iterator[bool]:
        """Sums of stored rows may be filled in: nobody removes any of those that are read for it."""
        with _opened(self._removal) as removal:
            yield _locked(removal, fcntl.LOCK_EX, time.monotonic() + timeout, stop)

    @contextmanager
    def paused(self, *, timeout: float) -> Iterator[None]:
        """Nobody changes the store while the block runs.

        Raises:
            UnavailableError: somebody still wrote when the time was over.
        """
        deadline = time.monotonic() + timeout
        with _opened(self._door) as door, _opened(self._room) as room:
            if not (
                _locked(door, fcntl.LOCK_EX, deadline, _NEVER)
                and _locked(room, fcntl.LOCK_EX, deadline, _NEVER)
            ):
                raise UnavailableError(
                    f"the store was still being written to after {timeout:g} s",
                    hint="does the store answer? see GET /readyz/query",
                )
            yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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


def _unlocked(descriptor: int) -> bool:
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True
