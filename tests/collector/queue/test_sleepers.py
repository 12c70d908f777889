"""Threads that wait for a queue condition wake up for it and for no other."""

import threading

from tests.support.waiting import wait_until
from tracereel_collector.queue.waiters import Sleepers


class Sleeper(threading.Thread):
    """Thread that sleeps until a number is large enough and counts its checks."""

    def __init__(self, sleepers, numbers, name, at_least, *, timeout=30.0):
        super().__init__(daemon=True)
        self._sleepers, self._numbers, self._name = sleepers, numbers, name
        self._at_least, self._timeout = at_least, timeout
        self.looks = 0
        self.start()

    def _is_so(self):
        self.looks += 1
        return self._numbers.get(self._name, 0) >= self._at_least

    def run(self):
        self._sleepers.sleep_until(self._is_so, timeout=self._timeout)


def test_only_waiters_with_a_true_condition_wake_up():
    sleepers, numbers = Sleepers(), {}
    first = Sleeper(sleepers, numbers, "a", 3)
    second = Sleeper(sleepers, numbers, "b", 1)
    wait_until(lambda: first.looks == second.looks == 1)

    for number in (1, 2, 3):
        numbers["a"] = number
        sleepers.look()

    first.join(30)
    assert not first.is_alive()
    assert second.is_alive()
    numbers["b"] = 1
    sleepers.look()
    second.join(30)
    assert not second.is_alive()


def test_wait_returns_at_once_when_the_condition_already_holds():
    sleeper = Sleeper(Sleepers(), {"a": 1}, "a", 1)

    sleeper.join(30)

    assert not sleeper.is_alive()


def test_wait_returns_after_its_timeout():
    sleepers = Sleepers()
    sleeper = Sleeper(sleepers, {}, "a", 1, timeout=0.05)

    sleeper.join(30)

    assert not sleeper.is_alive()
    sleepers.look()
    assert sleeper.looks == 1


def test_no_change_is_missed_while_going_to_sleep():
    sleepers, numbers = Sleepers(), {}
    for number in range(1, 300):
        sleeper = Sleeper(sleepers, numbers, "a", number)
        numbers["a"] = number
        sleepers.look()
        sleeper.join(30)
        assert not sleeper.is_alive()
