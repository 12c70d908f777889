"""Percentiles of durations: exact from few values, else from the buckets of the rollup.

A percentile is a value that occurred: the least that at least that share of all values does not exceed.
Bucket n ends at 2^(n/72) microseconds, so that any place in it is within 1 % of every value that it counts.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracereel_collector.store.rollup_agents import STEPS_PER_OCTAVE

SHOWN_PER_OCTAVE: Final = 8
"""Bars of a shown spread per factor of two."""
_SHARES: Final = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationCounts:
    """Durations of executions in microseconds."""

    counts: Mapping[int, int] = field(default_factory=dict)
    """Executions by bucket; those of deleted runs may leave 0 or less."""
    shortest: int = 0
    longest: int = 2**62
    total: int = 0
    exact: Sequence[int] | None = None
    """All values, if they are few."""

    def percentile(self, share: float) -> float | None:
        """Return a percentile in milliseconds; `None` without values."""
        found = self._estimate(share) if self.exact is None else self._exactly(self.exact, share)
        return None if found is None else round(found / 1_000, 3)

    @staticmethod
    def _exactly(values: Sequence[int], share: float) -> float | None:
        return sorted(values)[_rank(share, len(values)) - 1] if values else None

    def _estimate(self, share: float) -> float | None:
        known = {number: count for number, count in self.counts.items() if count > 0}
        rank = _rank(share, sum(known.values()))
        seen = 0
        for number in sorted(known):
            if seen + known[number] >= rank:
                part = (rank - seen - 0.5) / known[number]
                at = float(2 ** ((number - 1 + part) / STEPS_PER_OCTAVE))
                return min(max(at, self.shortest), self.longest)
            seen += known[number]
        return None

    def latency(self) -> dict[str, float | None]:
        """Return percentiles and the exact mean, in milliseconds."""
        number = sum(self.counts.values())
        return {
            **{f"p{share}_ms": self.percentile(share / 100) for share in _SHARES},
            "mean_ms": round(self.total / 1_000 / number, 3) if number > 0 else None,
        }

    def spread(self) -> list[dict[str, float | int]]:
        """Return the executions by duration, shortest first, in buckets for a chart."""
        shown: Counter[int] = Counter()
        for number, count in self.counts.items():
            shown[-(-number * SHOWN_PER_OCTAVE // STEPS_PER_OCTAVE)] += count
        return [
            {
                "from_ms": round(2 ** ((number - 1) / SHOWN_PER_OCTAVE) / 1_000, 6),
                "to_ms": round(2 ** (number / SHOWN_PER_OCTAVE) / 1_000, 6),
                "executions": shown[number],
            }
            for number in sorted(shown)
            if shown[number] > 0
        ]


def _rank(share: float, number: int) -> int:
    # Rounded first: 0.95 * 20 is slightly more than 19.
    return max(1, math.ceil(round(share * number, 6)))
