"""A bell that any thread may ring, at any moment, and one thread waits for.

`threading.Event` is made of a lock taken in Python code. A signal handler that rings while its own
thread is in there would wait for itself, and one that raises in there would leave the lock taken for
ever. This is made of a queue whose `put` is one step,
the real one also where greenlets have replaced it.
"""

from _queue import Empty, SimpleQueue


class Bell:
    """Like an event, for one waiting thread."""

    __slots__ = ("_rung", "_tokens")

    def __init__(self) -> None:
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._rung = False

    def is_set(self) -> bool:
        """Whether it was rung since it was cleared."""
        return self._rung

    def set(self) -> None:
        """Ring."""
        # Looking at the tokens too: who rang last may not have come to say so before ours was taken.
        if not self._rung or self._tokens.empty():
            # In this order: interrupted in between, the waiting thread is woken all the same.
            self._tokens.put(None)
            self._rung = True

    def wait(self, timeout: float) -> bool:
        """Wait until it is rung, at most so many seconds; whether it was."""
        if self._rung:
            return True
        try:
            self._tokens.get(timeout=max(timeout, 0.0))
        except Empty:
            return self._rung
        return True

    def clear(self) -> None:
        """Begin anew; what is rung from here on counts. Only for the thread that waits."""
        self._rung = False
        try:
            while True:
                self._tokens.get_nowait()
        except Empty:
            pass
