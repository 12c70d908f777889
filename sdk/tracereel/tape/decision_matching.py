"""Matching of decisions with those on the tape: by place, type and outcome.

Concurrent tasks decide in any order, so an equal outcome is taken first; if there is none, the
first one of that type that is left.
"""

from collections.abc import Iterator
from typing import Any, Final

from tracereel.tape.differences import shown
from tracereel.tape.divergence import Divergence
from tracereel.tape.format import Tape, TapeDecision
from tracereel.tape.payloads import same

MATCHED: Final = object()
"""The decision is on the tape."""
NOT_RECORDED: Final = object()
"""No decision of that type is left on the tape."""


class DecisionMatching:
    """Decisions of a tape, and which of them the run has made."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._open: dict[tuple[int, str], list[TapeDecision]] = {}
        for decision in tape.decisions:
            self._open.setdefault((decision.parent, decision.type), []).append(decision)

    def take(self, parent: int, decision_type: str, now: Any) -> Any:
        """Take the recorded decision that matches this one; return its outcome if it differs."""
        taken = self._open.get((parent, decision_type))
        if not taken:
            return NOT_RECORDED
        for decision in taken:
            if same(self._outcome(decision), now):
                taken.remove(decision)
                return MATCHED
        return self._outcome(taken.pop(0))

    def left(self) -> Iterator[Divergence]:
        """Take the decisions that were not made, as divergences."""
        for taken in self._open.values():
            while taken:
                decision = taken.pop(0)
                around = self._tape.calls.get(decision.parent)
                path = f"{around.name} / {decision.type}" if around is not None else decision.type
                outcome = shown(self._outcome(decision))
                detail = f"on the tape it was {outcome}, and it was not made"
                yield Divergence("decision", decision.type, path, 0, detail=detail)

    def _outcome(self, decision: TapeDecision) -> Any:
        try:
            return self._tape.data(decision.value)
        except ValueError:
            return None
