"""A wakeup reaches its waiter despite concurrent calls."""

import threading
from _queue import SimpleQueue

from tracereel._runtime.wakeup import Wakeup


class Tokens:
    """Queue of a wakeup that runs a callback right after the first `put`."""

    def __init__(self, after_first_put):
        self._queue, self._after = SimpleQueue(), after_first_put
        self.waiting = threading.Event()
        self.empty, self.get_nowait = self._queue.empty, self._queue.get_nowait

    def put(self, token):
        self._queue.put(token)
        if self._after is not None:
            after, self._after = self._after, None
            after()

    def get(self, timeout):
        if timeout > 0:
            self.waiting.set()
        return self._queue.get(timeout=timeout)


def test_waiter_that_returns_during_set_is_woken_by_the_next_set():
    """Another thread or a long signal handler may run between the two steps of `set`."""
    bell, woken = Wakeup(), []
    waiter = threading.Thread(target=lambda: woken.append(bell.wait(20)), daemon=True)

    def waiter_is_quicker():
        assert bell.wait(0)
        bell.clear()
        waiter.start()
        assert tokens.waiting.wait(10)

    tokens = bell._tokens = Tokens(waiter_is_quicker)
    bell.set()

    bell.set()

    waiter.join(5)
    assert woken == [True]
