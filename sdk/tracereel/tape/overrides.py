"""What a fork changes: the result of a call, the arguments of live calls, the outcome of a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Override:
    """One change to a run.

    Args:
        target: name of a tool, model or retrieval, the number of a call (from 1 on), or, with
            `chosen`, the type of a decision.
        result: what the call gives instead; it is not made. For a stream, the list of its parts.
        raises: what the call raises instead.
        arguments: what a live call is given instead, by name: another model, prompt or temperature.
        chosen: what a decision function gives instead; it is not run.
    """

    target: str | int
    result: Any = NOTHING
    raises: BaseException | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    chosen: Any = NOTHING


class Overrides:
    """The changes of one run."""

    def __init__(self, overrides: tuple[Override, ...]) -> None:
        self._all = overrides

    def _of(self, name: str, number: int) -> list[Override]:
        return [each for each in self._all if each.target in (name, number)]

    def result_of(self, name: str, number: int) -> Override | None:
        """What a call gives instead of its own result, if anything."""
        for each in self._of(name, number):
            if each.result is not NOTHING or each.raises is not None:
                return each
        return None

    def arguments_of(self, name: str, number: int) -> dict[str, Any]:
        """Arguments that a live call gets in place of its own."""
        found: dict[str, Any] = {}
        for each in self._of(name, number):
            found.update(each.arguments)
        return found

    def decides(self, decision_type: str) -> bool:
        """Whether a decision is forced."""
        return self.decision(decision_type)[0]

    def decision(self, decision_type: str) -> tuple[bool, Any]:
        """Whether a decision is forced, and to what."""
        for each in self._all:
            if each.target == decision_type and each.chosen is not NOTHING:
                return True, each.chosen
        return False, None
