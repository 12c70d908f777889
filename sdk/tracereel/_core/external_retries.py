"""Retries announced by the hooks of third-party retry loops.

A hook runs before the wait. Its announcement applies only to calls in the next attempt: not during
the wait, not after the loop, not to a second call.
"""

import time
import weakref
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from tracereel._core.run_state import Ended, lock
from tracereel._runtime import guard

if TYPE_CHECKING:
    from tracereel._core.closed_runs import ClosedRun

MAX_LOOPS: Final = 8
"""Maximum nesting of announced loops in one context."""
_GRACE: Final = 10.0
"""Seconds after which an announcement expires, if the state of the loop is unknown."""

Repeatable = dict[str, deque[Ended]]
"""Agent name → its executions in finished attempts, oldest first."""


class PendingRetry:
    """The next attempt of an external retry loop."""

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
        """Return whether the attempt has begun and is not over."""
        if self._state is None:
            return time.monotonic() <= self._deadline
        try:
            state = self._state()
            if state is None or state.outcome is not None or state.attempt_number != self.attempt:
                return False
            # The decision to retry stays set until the attempt begins: the loop is still waiting.
            step = getattr(state.retry_object, "iter_state", None)
            return step is None or not (step.retry_run_result or step.is_explicit_retry)
        except Exception as error:  # noqa: BLE001 - the library's API changed
            guard.pass_on(error)
            return False

    def claim_run(self, kind: str, name: str, trace_id: str | None) -> "ClosedRun | None":
        """Return the run to continue, once, if the call matches the one that closed it."""
        run = self.run
        if run is None or self._taken or (run.last.kind, run.last.name) != (kind, name):
            return None
        if trace_id not in (None, run.last.trace_id) or not self.is_under_way():
            return None
        with lock:
            taken, self._taken = self._taken, True
        return None if taken else run


def _weakly(state: Any) -> "weakref.ref[Any] | None":
    """Return a weak reference: the state holds exceptions and should end with the loop."""
    try:
        return weakref.ref(state) if state is not None else None
    except TypeError:
        return None


pending_retries: ContextVar[tuple[PendingRetry, ...]] = ContextVar(
    "tracereel_pending_retries", default=()
)
"""Pending retries, innermost loop last."""


def announce(
    *, state: Any, attempt: int, delay: float, failed: list[Ended], run: "ClosedRun | None"
) -> None:
    """Announce the next attempt of a third-party retry loop.

    Args:
        state: tenacity's retry state; `None` if unknown.
        attempt: number of the next attempt.
        delay: seconds until it begins.
        failed: agent executions that it repeats.
        run: run to continue, if no traced call is around the loop.
    """
    # Keep the attempts of outer loops, which are under way; drop those of this loop.
    around = [each for each in pending_retries.get() if each.is_under_way()][1 - MAX_LOOPS :]
    pending_retries.set((*around, PendingRetry(state, attempt, delay, failed, run)))


def former(name: str) -> Ended | None:
    """Return the agent's execution in the previous attempt, or `None`."""
    for each in reversed(pending_retries.get()):
        if each.repeatable.get(name) and each.is_under_way():
            return next_of(each.repeatable, name)
    return None


def continued(kind: str, name: str, trace_id: str | None) -> "tuple[ClosedRun, int] | None":
    """Return the run to continue and the attempt number."""
    for each in reversed(pending_retries.get()):
        if (run := each.claim_run(kind, name, trace_id)) is not None:
            return run, each.attempt
    return None


def next_of(repeatable: Repeatable, name: str) -> Ended | None:
    """Remove and return the agent's oldest execution that was not repeated yet."""
    waiting_ones = repeatable.get(name)
    while waiting_ones:
        try:
            found = waiting_ones.popleft()
        except IndexError:  # another thread took the last one
            return None
        if not found.repeated:
            return found
    return None
