"""Tape sessions beside recording and playing: the default, and the choice between two."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tracereel._core.tape_session import Live, TapeSession

if TYPE_CHECKING:
    from tracereel._core.context import Execution

RUNS: Final = Live()
"""Call that runs without being recorded."""


class PlainSession:
    """`TapeSession` that runs every call unrecorded; the base of the others."""

    def begin(self, *args: Any, **kwargs: Any) -> Any:
        """Let the call run."""
        del args, kwargs
        return RUNS

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """Let a `with` block run."""

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """Ignore the end of a `with` block."""

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Return that no decision is forced."""
        del execution, decision_type
        return False, None

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Ignore a decision."""


class Apart:
    """`TapeSession` for the code of a fork; other calls use the previous session."""

    def __init__(
        self, own: TapeSession, others: TapeSession | None, is_here: Callable[[], bool]
    ) -> None:
        self._own = own
        self._others = others or PlainSession()
        self._is_here = is_here

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if self._is_here() else self._others, name)
