"""Slots: shared state of an attempt, or of a fallback route, and the executions inside.

`@retry` over `@traced_agent` runs before the agent's execution exists. It puts a slot into the
context, which the first matching execution takes (`adopt`). This way an execution gets its attempt
number, and the wrapper can read its confidence and trace afterwards.

Every agent that ends inside a slot is added to it (`end`), and so is the cost (`spend`). If the
attempt is repeated, an agent in the next one repeats the earlier execution of the same name.
"""

import asyncio
from collections import deque
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import external_retries
from tracereel._core.external_retries import Repeatable
from tracereel._core.run_state import Ended, ExecutionState, lock

if TYPE_CHECKING:
    from tracereel._core.context import Execution

NOTHING: Final = object()
MAX_ENDED: Final = 256
"""Maximum number of agents remembered per attempt; others are counted again when repeated."""

_slot: ContextVar["Slot | None"] = ContextVar("tracereel_slot", default=None)


class Slot:
    """One call of a wrapped function, shared by its wrapper and the execution inside."""

    __slots__ = (
        "abandoned_cost",
        "agent",
        "attempt",
        "attempts_cost",
        "cost",
        "deadline",
        "ended",
        "execution",
        "exhausted",
        "fallback_attempted",
        "last",
        "outer",
        "repeatable",
        "retry_count",
        "state",
        "within",
    )

    def __init__(
        self,
        agent: str | None,
        *,
        attempt: int | None = None,
        last: bool = False,
        fallback_attempted: bool = False,
        execution: "Execution | None" = None,
        within: "Slot | None" = None,
        state: ExecutionState | None = None,
        repeatable: Repeatable | None = None,
    ) -> None:
        self.agent = agent
        self.attempt = attempt
        self.last = last
        self.retry_count = attempt - 1 if attempt is not None else 0
        self.fallback_attempted = fallback_attempted
        self.execution = execution
        self.outer = _slot.get()
        self.within = within
        """Slot of an outer wrapper of the same agent; its attempt and retry counts apply too."""
        if within is not None:
            if attempt is None:
                self.attempt, self.last = within.attempt, within.last
            self.retry_count += within.retry_count
            self.fallback_attempted = fallback_attempted or within.fallback_attempted
        self.deadline: tuple[asyncio.Timeout, float] | None = None
        """Timeout that stops the call, and its limit in seconds."""
        self.exhausted: Any = NOTHING
        """Final error or result of an exhausted inner retry; compared by identity."""
        self.state = state
        """State of the enclosing execution; `cost` is its spending inside this slot."""
        self.cost = 0.0
        self.attempts_cost = 0.0
        """Part of the cost wasted on attempts; `abandoned_cost` is the part wasted on routes."""
        self.abandoned_cost = 0.0
        self.ended: list[Ended] = []
        self.repeatable = repeatable

    def numbers(self, execution: "Execution") -> bool:
        """Return whether this slot or an outer one already numbers the attempts of an execution."""
        slot: Slot | None = self
        while slot is not None:
            if slot.execution is execution and slot.attempt is not None:
                return True
            slot = slot.outer
        return False

    @property
    def limit_passed(self) -> float | None:
        """Time limit in seconds, if it expired and stopped the call; else `None`."""
        slot: Slot | None = self
        while slot is not None:
            if slot.deadline is not None and slot.deadline[0].expired():
                return slot.deadline[1]
            slot = slot.within
        return None

    def settle(self, *, failed: bool = False, abandoned: bool = False) -> tuple[float, list[Ended]]:
        """Add the wasted cost of the finished call to the enclosing slot or execution.

        Returns:
            The total cost of a failed or abandoned call, and the inner executions whose remaining cost
            became wasted by it.
        """
        with lock:
            if failed:
                self.attempts_cost, self.abandoned_cost = self.cost, 0.0
            elif abandoned:
                self.attempts_cost, self.abandoned_cost = 0.0, self.cost
            inside = self.outer is not None and self.outer.state is self.state
            target = self.outer if inside else self.state
            if target is not None:
                target.attempts_cost += self.attempts_cost
                target.abandoned_cost += self.abandoned_cost
            if not failed and not abandoned:
                return 0.0, []
            spent = [each for each in self.ended if each.cost_left > 0.0]
            total = self.cost + sum(each.cost for each in self.ended)
            return total, spent

    def give_up(self, repeatable: Repeatable) -> None:
        """Make the executions of this attempt repeatable by the next one."""
        for each in self.ended:
            if not each.repeated:
                repeatable.setdefault(each.agent_name, deque()).append(each)


def current() -> Slot | None:
    """Return the innermost slot."""
    return _slot.get()


def waiting(agent: str | None) -> Slot | None:
    """Return the innermost slot if it is for this agent and not taken yet."""
    slot = _slot.get()
    if agent is None or slot is None or slot.agent != agent or slot.execution is not None:
        return None
    return slot


def enter(slot: Slot | None) -> Token[Slot | None]:
    """Make a slot the innermost one; entering the current one again marks the context."""
    return _slot.set(slot)


def leave(token: Token[Slot | None]) -> bool:
    """Undo `enter`; return False if the coroutine was closed in another context."""
    try:
        _slot.reset(token)
    except ValueError:
        return False
    return True


def adopt(execution: "Execution") -> None:
    """Apply the surrounding slots to an execution that begins."""
    slot = _slot.get()
    # Third-party loops have no slots; their hooks announce the next attempt.
    if slot is None and not external_retries.pending_retries.get():
        return
    execution.slot = slot
    former = _former(execution.name, slot)
    if former is not None:
        former.repeated = True
        execution.repeats = former
        execution.earlier = execution.retry_count = former.earlier + 1
        if execution.tally is not None:
            execution.tally.take_back(former)
    if slot is None or slot.execution is not None or slot.agent != execution.name:
        return
    taken: Slot | None = slot
    while taken is not None:
        taken.execution = execution
        taken = taken.within
    execution.attempt = slot.attempt
    execution.earlier = execution.retry_count = max(execution.earlier, slot.retry_count)
    execution.max_retries_reached = slot.last
    execution.fallback_attempted = slot.fallback_attempted


def end(slot: Slot | None, ended: Ended) -> None:
    """Add an ended execution to its slot and all outer ones."""
    while slot is not None:
        if len(slot.ended) < MAX_ENDED:
            slot.ended.append(ended)
        slot = slot.outer


def spend(state: ExecutionState, cost: float | None) -> None:
    """Add cost to the attempts that are under way in an execution."""
    slot = _slot.get()
    if slot is None or not cost:
        return
    with lock:
        while slot is not None and slot.state is state:
            slot.cost += cost
            slot = slot.outer


def _former(name: str, slot: Slot | None) -> Ended | None:
    """Return an unrepeated execution of the same agent in a previous attempt, or `None`."""
    while slot is not None:
        if (
            slot.repeatable
            and (found := external_retries.next_of(slot.repeatable, name)) is not None
        ):
            return found
        slot = slot.outer
    return external_retries.former(name)
