"""Pauses of Python's garbage collector while many objects are made that all stay."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_paused = 0
"""Blocks that are under way, in all threads."""


@contextmanager
def collections_paused() -> Iterator[None]:
    """Keep the collector of cycles from running: it would walk the objects again and again."""
    global _paused
    with _lock:
        if not _paused:
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if not _paused:
                gc.enable()
