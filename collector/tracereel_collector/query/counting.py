"""Facet counts and start-time histogram of the runs found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracereel_collector.query.window import DAY, SECOND, Window, iso
from tracereel_collector.store.rollups import TAG_KINDS

FACETS = ("status", *TAG_KINDS)
FACET_VALUES = 20
"""Maximum values counted per facet."""

_STATUS_MARK = "[concat('status:', status)]"
_STEP_MARK = """if(started >= {from:Int64} AND started < {to:Int64},
    [concat('step:', toString(intDiv(started - {from:Int64}, {step:Int64})),
        if(status = 'failed', ' failed', ''))], [])"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Window divided into equal steps, for a histogram of runs."""

    start: int
    end: int
    step: int

    @classmethod
    def of(cls, window: Window, count: int, *, now: int) -> "Steps":
        """Divide a window; open ends default to now and a day before the end."""
        end = window.end if window.end is not None else now
        start = window.start if window.start is not None else end - DAY
        return cls(start=start, end=end, step=max(SECOND, -(-(end - start) // count)))

    @property
    def window(self) -> Window:
        """Window that the steps divide."""
        return Window(start=self.start, end=self.end)

    def parameters(self) -> dict[str, int]:
        """Return the parameters of `search_counts.sql`."""
        return {"from": self.start, "to": self.end, "step": self.step}

    def shown(self, counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the histogram as shown in responses; `counts` are keyed by step number."""
        failed = [
            counts.get(f"{n} failed", 0) for n in range(-(-(self.end - self.start) // self.step))
        ]
        return {
            "step_seconds": self.step / SECOND,
            "total": sum(counts.values()),
            "buckets": [
                {
                    "from": iso(self.start + n * self.step),
                    "runs": counts.get(str(n), 0) + failed_runs,
                    "failed": failed_runs,
                }
                for n, failed_runs in enumerate(failed)
            ],
        }


def tag_values(facets: Sequence[str]) -> str:
    """Return SQL for the counted tag values of a run."""
    # Safe to interpolate: the route accepts only known kinds.
    kinds = " OR ".join(f"startsWith(t, '{kind}:')" for kind in facets if kind in TAG_KINDS)
    if not kinds:
        return "CAST([], 'Array(String)')"
    # Most runs have one row, so merging rows is cheaper than extracting their values twice.
    return f"arrayDistinct(arrayFlatten(groupArray(arrayFilter(t -> {kinds}, s.tags))))"


def status_and_step(facets: Sequence[str], steps: Steps | None) -> str:
    """Return SQL for the status and start step of a run, as counted values."""
    marks = [_STATUS_MARK] * ("status" in facets) + [_STEP_MARK] * bool(steps)
    return f"arrayConcat({', '.join([*marks, '[]'])})"


def shown_counts(
    rows: Iterable[tuple[str, str, int]], facets: Sequence[str], steps: Steps | None
) -> dict[str, Any]:
    """Return the requested `facets` and `histogram` from the rows of `search_counts.sql`."""
    counted: dict[str, list[tuple[str, int]]] = {}
    for kind, value, runs in rows:
        counted.setdefault(kind, []).append((value, runs))
    made: dict[str, Any] = {}
    if facets:
        made["facets"] = {
            kind: [
                {"value": value, "runs": runs}
                for value, runs in counted.get(kind, [])[:FACET_VALUES]
            ]
            for kind in facets
        }
    if steps:
        made["histogram"] = steps.shown(dict(counted.get("step", [])))
    return made
