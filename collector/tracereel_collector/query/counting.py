"""What is counted of the runs that were found: values of each kind, and when they began."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel_collector.query.window import DAY, SECOND, Window, iso
from tracereel_collector.store.rollups import TAG_KINDS

FACETS = ("status", *TAG_KINDS)
FACET_VALUES = 20
"""Most values that are counted of one kind."""

_COUNTED = msgspec.json.Decoder(tuple[str, str, int])
_STATUS_MARK = "[concat('status:', status)]"
_STEP_MARK = """if(started >= {from:Int64} AND started < {to:Int64},
    [concat('step:', toString(intDiv(started - {from:Int64}, {step:Int64})),
        if(status = 'failed', ' failed', ''))], [])"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A window cut into equal steps, in which runs are counted."""

    start: int
    end: int
    step: int

    @classmethod
    def of(cls, window: Window, count: int, *, now: int) -> "Steps":
        """Of a window; where it is open, a day up to its end, or to now."""
        end = window.end if window.end is not None else now
        start = window.start if window.start is not None else end - DAY
        return cls(start=start, end=end, step=max(SECOND, -(-(end - start) // count)))

    @property
    def window(self) -> Window:
        return Window(start=self.start, end=self.end)

    def parameters(self) -> dict[str, int]:
        """What `search_counts.sql` is told."""
        return {"from": self.start, "to": self.end, "step": self.step}

    def shown(self, counts: Mapping[str, int]) -> dict[str, Any]:
        """As an answer has it; runs are counted under the number of their step."""
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


def said_of(facets: Sequence[str]) -> str:
    """SQL for the values of a run that are counted, over its rows."""
    # The kinds are names of our own: the route takes no others.
    kinds = " OR ".join(f"startsWith(t, '{kind}:')" for kind in facets if kind in TAG_KINDS)
    if not kinds:
        return "CAST([], 'Array(String)')"
    # Most runs have one row: to put the rows of each together is cheaper than to look for its values twice.
    return f"arrayDistinct(arrayFlatten(groupArray(arrayFilter(t -> {kinds}, s.tags))))"


def marks_of(facets: Sequence[str], steps: Steps | None) -> str:
    """SQL for what else is counted of a run: its status, and the step in which it began."""
    marks = [_STATUS_MARK] * ("status" in facets) + [_STEP_MARK] * bool(steps)
    return f"arrayConcat({', '.join([*marks, '[]'])})"


def shown_counts(answer: bytes, facets: Sequence[str], steps: Steps | None) -> dict[str, Any]:
    """`facets` and `histogram`, as they were asked for, of the lines of `search_counts.sql`."""
    counted: dict[str, list[tuple[str, int]]] = {}
    for kind, value, runs in _COUNTED.decode_lines(answer):
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
