"""Refusal of real calls with side effects that a replay does not serve."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracereel._core.replay_guard import UNDECLARED, changes_something, is_allowed, refusal
from tracereel.errors import NotAllowedError

if TYPE_CHECKING:
    from collections.abc import Container

    from tracereel._core.context import Execution
    from tracereel.tape.format import Tape
    from tracereel.tape.report import Report
    from tracereel.tape.serving import MadeCall


@dataclass(frozen=True, slots=True)
class Permissions:
    """Real calls that one replay may make."""

    allowed: "Container[str]"
    """Names of calls that may run although they have side effects."""
    effects: dict[tuple[str, str], str]
    """Recorded effects, by kind and name."""
    report: "Report"

    @classmethod
    def of_tape(cls, tape: "Tape", *, allowed: "Container[str]", report: "Report") -> "Permissions":
        """Return the permissions for a tape, which knows the effects of its calls."""
        effects = {
            (call.kind, call.name): call.effect for call in tape.calls.values() if call.effect
        }
        return cls(allowed, effects, report)

    def check_call(self, made: "MadeCall", path: str) -> None:
        """Refuse a real call with side effects that is not allowed by name.

        Raises:
            NotAllowedError: it is refused.
        """
        effect = self._strictest(made)
        if not changes_something(made.kind, effect) or is_allowed(
            self.allowed, made.name, made.around
        ):
            return
        self.report.called(made.kind, made.name, path, "refused", None)
        self._refuse(refusal(path, effect))

    def check_block(self, execution: "Execution", effect: str) -> None:
        """Refuse a `with` block that has side effects, because blocks cannot be served.

        Raises:
            NotAllowedError: it is refused.
        """
        kind, name = execution.kind, execution.name
        if changes_something(kind, effect) and not is_allowed(self.allowed, name, execution.parent):
            self._refuse(
                f"the block of {name} cannot be served and would run for real"
                f" (it declares {effect or UNDECLARED}); make it a function, or"
                f" allow it by name (allow=[{name!r}], --allow {name})"
            )

    def _refuse(self, text: str) -> None:
        self.report.refused = self.report.refused or text
        raise NotAllowedError(text)

    def _strictest(self, made: "MadeCall") -> str:
        """Return the declared effect of a call, or the recorded one if it may write."""
        recorded = self.effects.get((made.kind, made.name))
        risky = recorded is not None and changes_something(made.kind, recorded)
        return recorded if risky and recorded is not None else made.effect
