"""Bells between processes: pipes of single bytes that say "look again", never what has happened.

What has happened stands in the queue. A bell that is full is already ringing, and one whose other
end is gone is nobody's loss, so ringing never waits and never fails.
"""

import os
import threading
from collections.abc import Callable, Iterable

from tracereel_collector.model import Kind

_KINDS = tuple(Kind)
_HURRY = 0x80


class Bell:
    """The end that rings."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()

    def ring(self, data: bytes = b"\0") -> None:
        """Let the other end look again."""
        with self._lock:  # a closed descriptor's number may be another file's by now
            if self._descriptor is not None:
                try:
                    os.write(self._descriptor, data)
                except OSError:
                    pass  # full or gone

    def close(self) -> None:
        """Ring no more; safe to call twice."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def appended(self, kinds: Iterable[Kind], /, *, hurry: bool) -> None:
        """Say of which kinds something was appended, or is waited for."""
        flag = _HURRY if hurry else 0
        self.ring(bytes(_KINDS.index(kind) | flag for kind in kinds))


def hurried(data: bytes) -> set[Kind]:
    """The kinds that somebody waits for, out of what a bell said."""
    return {_KINDS[byte & ~_HURRY] for byte in data if byte & _HURRY}


def listen(descriptor: int, on_ring: Callable[[bytes], None], *, name: str) -> threading.Thread:
    """Call a function for every ring, in a thread that ends when the last ringing end closes."""

    def run() -> None:
        while data := os.read(descriptor, 4096):
            on_ring(data)
        os.close(descriptor)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
