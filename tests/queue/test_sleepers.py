"""Threads that wait for something in the queue are woken for it, and for nothing else."""

import threading

from tests.support.waiting import wait_until
from tracereel_collector.queue.sleepers import Sleepers


class Sleeper(threading.Thread):
    """Sleeps until a number is at least so large; counts how often its reason was looked at."""

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


def test_only_those_wake_whose_reason_has_come():
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


def test_who_comes_when_it_is_so_already_does_not_sleep():
    sleeper = Sleeper(Sleepers(), {"a": 1}, "a", 1)

    sleeper.join(30)

    assert not sleeper.is_alive()


def test_nobody_sleeps_longer_than_was_asked_for():
    sleepers = Sleepers()
    sleeper = Sleeper(sleepers, {}, "a", 1, timeout=0.05)

    sleeper.join(30)

    assert not sleeper.is_alive()
    sleepers.look()
    assert sleeper.looks == 1


def test_no_change_is_missed_however_it_falls_together_with_going_to_sleep():
    sleepers, numbers = Sleepers(), {}
    for number in range(1, 300):
        sleeper = Sleeper(sleepers, numbers, "a", number)
        numbers["a"] = number
        sleepers.look()
        sleeper.join(30)
        assert not sleeper.is_alive()
