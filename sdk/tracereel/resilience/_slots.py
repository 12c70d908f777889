"""Slots: what an attempt, or a route of a fallback, and the executions inside it say to each other.

`@retry` over `@traced_agent` runs before the agent's execution exists. It leaves a slot in the
context; the execution that begins there takes it (`adopt`), once. So attempts know their number,
and the wrapper outside can read the confidence and the trace of the execution afterwards.

Every agent that ends inside a slot is noted in it (`end`), and so is what is spent (`spend`). When the
attempt is repeated, an agent that begins in the next one repeats that of the same name before it.
"""

import asyncio
from collections import deque
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from tracereel._run import Ended, State, lock
from tracereel.resilience import _announced
from tracereel.resilience._announced import Repeatable

if TYPE_CHECKING:
    from tracereel._context import Execution

NOTHING: Final = object()
MAX_ENDED: Final = 256
"""Agents noted per attempt; more of them count each time."""

_slot: ContextVar["Slot | None"] = ContextVar("tracereel_slot", default=None)


class Slot:
    """One call of a wrapped function, as the code around it and the execution inside see it."""

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
        state: State | None = None,
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
        """The slot of another wrapper of the same agent around this one: it has its say too."""
        if within is not None:
            if attempt is None:
                self.attempt, self.last = within.attempt, within.last
            self.retry_count += within.retry_count
            self.fallback_attempted = fallback_attempted or within.fallback_attempted
        self.deadline: tuple[asyncio.Timeout, float] | None = None
        """What stops the call when it takes too long, and the seconds it has."""
        self.exhausted: Any = NOTHING
        """The error or result with which a retry inside gave up; compared by identity."""
        self.state = state
        """That of the execution in whose code this is; what it spends in here is `cost`."""
        self.cost = 0.0
        self.attempts_cost = 0.0
        """Parts of the cost that are known to be wasted, on attempts and on routes."""
        self.abandoned_cost = 0.0
        self.ended: list[Ended] = []
        self.repeatable = repeatable

    def numbers(self, execution: "Execution") -> bool:
        """Whether this slot, or one around it, already numbers the attempts of an execution."""
        slot: Slot | None = self
        while slot is not None:
            if slot.execution is execution and slot.attempt is not None:
                return True
            slot = slot.outer
        return False

    @property
    def limit_passed(self) -> float | None:
        """The seconds that the call has had, if that was not enough and it is stopped for it."""
        slot: Slot | None = self
        while slot is not None:
            if slot.deadline is not None and slot.deadline[0].expired():
                return slot.deadline[1]
            slot = slot.within
        return None

    def settle(self, *, failed: bool = False, abandoned: bool = False) -> tuple[float, list[Ended]]:
        """The call is over: pass on to what is around which part of its cost was for nothing.

        Gives what a failed or abandoned one has cost in all, and the executions inside whose cost is
        wasted by that and was not before.
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
        """Another attempt follows: what ended in this one is there to be repeated."""
        for each in self.ended:
            if not each.repeated:
                repeatable.setdefault(each.agent_name, deque()).append(each)


def current() -> Slot | None:
    """The innermost slot here."""
    return _slot.get()


def waiting(agent: str | None) -> Slot | None:
    """The innermost slot, if it is for this agent and no execution has taken it yet."""
    slot = _slot.get()
    if agent is None or slot is None or slot.agent != agent or slot.execution is not None:
        return None
    return slot


def enter(slot: Slot | None) -> Token[Slot | None]:
    """Make a slot the innermost one; the one that already is, to mark the context."""
    return _slot.set(slot)


def leave(token: Token[Slot | None]) -> bool:
    """Undo `enter`; false where a coroutine is closed in another context than it ran in."""
    try:
        _slot.reset(token)
    except ValueError:
        return False
    return True


def adopt(execution: "Execution") -> None:
    """Called by an execution that begins: take what the slots around it say, where it is meant."""
    slot = _slot.get()
    # Loops of other people's have no slots; their hooks announce what an attempt repeats.
    if slot is None and _announced.nothing():
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
    told: Slot | None = slot
    while told is not None:
        told.execution = execution
        told = told.within
    execution.attempt = slot.attempt
    execution.earlier = execution.retry_count = slot.retry_count
    execution.max_retries_reached = slot.last
    execution.fallback_attempted = slot.fallback_attempted


def end(slot: Slot | None, ended: Ended) -> None:
    """Called by an execution that ends: note it in the slot it began in, and those around."""
    while slot is not None:
        if len(slot.ended) < MAX_ENDED:
            slot.ended.append(ended)
        slot = slot.outer


def spend(state: State, cost: float | None) -> None:
    """Note what an execution has spent in the attempts that are under way in it."""
    slot = _slot.get()
    if slot is None or not cost:
        return
    with lock:
        while slot is not None and slot.state is state:
            slot.cost += cost
            slot = slot.outer


def _former(name: str, slot: Slot | None) -> Ended | None:
    """The execution of an attempt before, of the same agent, that has not been repeated yet."""
    while slot is not None:
        if slot.repeatable and (found := _announced.next_of(slot.repeatable, name)) is not None:
            return found
        slot = slot.outer
    return _announced.former(name)
