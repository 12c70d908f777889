"""Search filter by scores of runs."""

from dataclasses import dataclass
from typing import Any, Final

WIDEST: Final = 1.7e308
"""Bound used when no minimum or maximum is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Conditions that one score of a run must meet together; empty fields match everything."""

    names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    """Maximum. Booleans count as 1 or 0; categories and notes have no number."""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `scored_runs.sql`."""
        return {
            "score_names": list(self.names),
            "score_categories": list(self.categories),
            "score_bounded": int(self.least is not None or self.most is not None),
            "min_score": -WIDEST if self.least is None else self.least,
            "max_score": WIDEST if self.most is None else self.most,
        }
