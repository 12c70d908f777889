"""Slots: what a retry or fallback outside an agent has to say to the execution that begins inside.

`@retry` over `@traced_agent` runs before the agent's execution exists. It leaves a slot in the
context; the execution that begins there takes it (`adopt`), once. So attempts know their number,
and the wrapper outside can read the confidence and the trace of the execution afterwards.
"""

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel._context import Execution

NOTHING: Final = object()

_slot: ContextVar["Slot | None"] = ContextVar("tracereel_slot", default=None)


class Slot:
    """One call of a wrapped function, as the code around it and the execution inside see it."""

    __slots__ = (
        "agent",
        "attempt",
        "execution",
        "exhausted",
        "fallback_attempted",
        "last",
        "outer",
        "retry_count",
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
        self.exhausted: Any = NOTHING
        """The error or result with which a retry inside gave up; compared by identity."""

    def numbers(self, execution: "Execution") -> bool:
        """Whether this slot, or one around it, already numbers the attempts of an execution."""
        slot: Slot | None = self
        while slot is not None:
            if slot.execution is execution and slot.attempt is not None:
                return True
            slot = slot.outer
        return False


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
    """Called by an execution that begins: take what the slot around it says, if it is meant."""
    slot = _slot.get()
    if slot is None or slot.execution is not None or slot.agent != execution.name:
        return
    told: Slot | None = slot
    while told is not None:
        told.execution = execution
        told = told.within
    execution.attempt = slot.attempt
    execution.retry_count = slot.retry_count
    execution.max_retries_reached = slot.last
    execution.fallback_attempted = slot.fallback_attempted
