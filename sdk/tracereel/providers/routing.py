"""Routing decision: how a router chose an agent."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import msgspec

Rule = Literal["slash_command", "keyword", "attachment", "model"]
RULES: Final[tuple[str, ...]] = get_args(Rule)
"""Rules, in order of precedence."""


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate agents, the chosen one, and the rule that chose it."""

    candidates: Sequence[str]
    chosen: str
    rule: Rule
    matched: str | None = None
    """Command, keyword or file that matched."""
    reasoning: str | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule {self.rule!r} is not known; known are {', '.join(RULES)}")

    def as_decision(self) -> dict[str, Any]:
        """Return the arguments for `tracereel.record_decision`.

        The default confidence of a rule is 1.0; a model's is `None`, because only the model can
        report it.
        """
        certain = None if self.rule == "model" else 1.0
        return {
            "decision_type": "routing",
            "category": "routing",
            "candidates": list(self.candidates),
            "chosen": self.chosen,
            "reasoning": self.reasoning or self._reason(),
            "confidence": certain if self.confidence is None else self.confidence,
            "output_data": {"agent": self.chosen, "rule": self.rule, "matched": self.matched},
        }

    def _reason(self) -> str:
        found = f" {self.matched!r}" if self.matched else ""
        return f"decided by {self.rule.replace('_', ' ')}{found}"
