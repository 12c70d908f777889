"""Event for one waiting thread that is safe to set in signal handlers.

`threading.Event` uses a lock in Python code. A signal handler that sets it inside of its own
thread's call would deadlock; one that raises there would leave the lock held. `SimpleQueue.put` is
atomic. The import from `_queue` is the native class, also under gevent.
"""

from _queue import Empty, SimpleQueue


class Wakeup:
    """Re-entrant `threading.Event` for one waiting thread."""

    __slots__ = ("_rung", "_tokens")

    def __init__(self) -> None:
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._rung = False

    def is_set(self) -> bool:
        """Return whether it was set since it was cleared."""
        return self._rung

    def set(self) -> None:
        """Set the event and wake up the waiting thread."""
        # Also check the tokens: a set() in progress may have lost its token before it set the flag.
        if not self._rung or self._tokens.empty():
            # In this order, so that an interruption in between still wakes up the waiting thread.
            self._tokens.put(None)
            self._rung = True

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, at most `timeout` seconds; return whether it is set."""
        if self._rung:
            return True
        try:
            self._tokens.get(timeout=max(timeout, 0.0))
        except Empty:
            return self._rung
        return True

    def clear(self) -> None:
        """Reset the event; only for the waiting thread."""
        self._rung = False
        try:
            while True:
                self._tokens.get_nowait()
        except Empty:
            pass
