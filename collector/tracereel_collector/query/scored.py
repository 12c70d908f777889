"""What runs are searched by when it is what somebody thinks of them."""

from dataclasses import dataclass
from typing import Any, Final

WIDEST: Final = 1.7e308
"""No score that anybody asks for is beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What one score of a run must be, all of it at once; what is empty does not matter."""

    names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    """Of a boolean the value is 1 or 0; a category and a note have none."""

    def parameters(self) -> dict[str, Any]:
        """As `scored_runs.sql` wants them."""
        return {
            "score_names": list(self.names),
            "score_categories": list(self.categories),
            "score_bounded": int(self.least is not None or self.most is not None),
            "min_score": -WIDEST if self.least is None else self.least,
            "max_score": WIDEST if self.most is None else self.most,
        }
