"""What the hooks of other people's loops announce: another attempt, what it repeats, whose run it is.

A hook speaks before the wait. What it says is for calls in the attempt that follows, and for nobody
else: not during the wait, not after the loop, not for a second call.
"""

import time
import weakref
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from tracereel import _guard
from tracereel._run import Ended, lock

if TYPE_CHECKING:
    from tracereel.resilience._closed_runs import ClosedRun

MAX_LOOPS: Final = 8
"""Loops within loops that are remembered in one context."""
_GRACE: Final = 10.0
"""Seconds after which an attempt is not awaited any more, where the loop does not show its state."""

Repeatable = dict[str, deque[Ended]]
"""Name of an agent → its executions in attempts that are over, oldest first."""


class Announced:
    """Another attempt that a loop is going to make."""

    __slots__ = ("_deadline", "_state", "_taken", "attempt", "repeatable", "run")

    def __init__(
        self, state: Any, attempt: int, delay: float, failed: list[Ended], run: "ClosedRun | None"
    ) -> None:
        self.attempt = attempt
        self.run = run
        self.repeatable: Repeatable = {}
        for each in failed:
            self.repeatable.setdefault(each.agent_name, deque()).append(each)
        self._taken = False
        self._deadline = time.monotonic() + delay + _GRACE
        self._state = _weakly(state)

    def is_under_way(self) -> bool:
        """Whether the attempt has begun and is not over."""
        if self._state is None:
            return time.monotonic() <= self._deadline
        try:
            state = self._state()
            if state is None or state.outcome is not None or state.attempt_number != self.attempt:
                return False
            # What the loop has decided on stands until it begins the attempt: it still waits.
            step = getattr(state.retry_object, "iter_state", None)
            return step is None or not (step.retry_run_result or step.is_explicit_retry)
        except Exception as error:  # noqa: BLE001 - a library that has changed
            _guard.pass_on(error)
            return False

    def goes_on_with(self, kind: str, name: str, trace_id: str | None) -> "ClosedRun | None":
        """The run, for the first call in the attempt that is the same as the one that closed it."""
        run = self.run
        if run is None or self._taken or (run.kind, run.name) != (kind, name):
            return None
        if trace_id is not None and trace_id != run.trace.trace_id:
            return None
        if not self.is_under_way():
            return None
        with lock:
            taken, self._taken = self._taken, True
        return None if taken else run


def _weakly(state: Any) -> "weakref.ref[Any] | None":
    """The state ends with the loop, and holds what the attempts have raised: nobody else keeps it."""
    try:
        return weakref.ref(state) if state is not None else None
    except TypeError:
        return None


_announced: ContextVar[tuple[Announced, ...]] = ContextVar("tracereel_announced", default=())
"""Innermost loop last."""


def announce(
    *, state: Any, attempt: int, delay: float, failed: list[Ended], run: "ClosedRun | None"
) -> None:
    """A loop of somebody else's is going to try again.

    Args:
        state: tenacity's of the loop; null where it is not known.
        attempt: the number of the attempt to come.
        delay: seconds until then.
        failed: executions of agents that it repeats.
        run: the one to go on with, where nothing is around the loop.
    """
    # An attempt of a loop around this one is under way, one of this loop is over.
    around = [each for each in _announced.get() if each.is_under_way()][1 - MAX_LOOPS :]
    _announced.set((*around, Announced(state, attempt, delay, failed, run)))


def nothing() -> bool:
    """Whether no loop has announced anything here."""
    return not _announced.get()


def former(name: str) -> Ended | None:
    """The execution of an agent in the attempt before, for one of that name that begins."""
    for each in reversed(_announced.get()):
        if each.repeatable.get(name) and each.is_under_way():
            return next_of(each.repeatable, name)
    return None


def continued(kind: str, name: str, trace_id: str | None) -> "tuple[ClosedRun, int] | None":
    """The run that an outermost call which begins here goes on with, and the attempt that it is."""
    for each in reversed(_announced.get()):
        if (run := each.goes_on_with(kind, name, trace_id)) is not None:
            return run, each.attempt
    return None


def next_of(repeatable: Repeatable, name: str) -> Ended | None:
    """Take the oldest execution of an agent that has not been repeated yet."""
    waiting_ones = repeatable.get(name)
    while waiting_ones:
        try:
            found = waiting_ones.popleft()
        except IndexError:  # another thread was quicker
            return None
        if not found.repeated:
            return found
    return None
