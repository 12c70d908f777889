"""Wake-up pipes between processes: single bytes without content.

The data is in the queue. If a pipe is full the reader is already awake, and if the reader is gone the
byte is not needed, so writing never blocks and never fails.
"""

import os
import threading
from collections.abc import Callable, Iterable

import structlog

from tracereel_collector.model import Kind

log = structlog.get_logger(__name__)

_KINDS = tuple(Kind)
_HURRY = 0x80


class WakeupPipe:
    """Write end of a wake-up pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()

    def ring(self, data: bytes = b"\0") -> None:
        """Wake up the reader."""
        with self._lock:  # a closed descriptor's number may be another file's by now
            if self._descriptor is not None:
                try:
                    os.write(self._descriptor, data)
                except OSError:
                    pass  # full or gone

    def close(self) -> None:
        """Close the pipe; safe to call twice."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def appended(self, kinds: Iterable[Kind], /, *, hurry: bool) -> None:
        """Wake up the reader for kinds that were appended, or are needed soon (`hurry`)."""
        flag = _HURRY if hurry else 0
        self.ring(bytes(_KINDS.index(kind) | flag for kind in kinds))


def hurried(data: bytes) -> set[Kind]:
    """Return the kinds marked as hurried in bytes read from a pipe."""
    return {_KINDS[byte & ~_HURRY] for byte in data if byte & _HURRY}


def listen(descriptor: int, on_ring: Callable[[bytes], None], *, name: str) -> threading.Thread:
    """Call a function for every wake-up, in a thread. It ends when all writers have closed."""

    def run() -> None:
        while data := os.read(descriptor, 4096):
            try:
                on_ring(data)
            except Exception as error:
                # The next wake-up may succeed; without this thread there is none.
                log.exception("wakeup_failed", thread=name, reason=str(error))
        os.close(descriptor)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
