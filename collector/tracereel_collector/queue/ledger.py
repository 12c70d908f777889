"""Ledger of seen emitter numbers: a bounded set of intervals, exact while it fits."""

from bisect import bisect_right
from dataclasses import dataclass

from tracereel_collector.model import EmitterRun

MAX_INTERVALS = 256
"""Intervals kept per emitter; beyond this, the lowest is forgotten.

Forgetting may store an event twice (reads deduplicate by event id); merging could lose events.
"""


@dataclass(slots=True)
class Seen:
    """Sorted, disjoint, inclusive intervals of seen numbers."""

    intervals: list[tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> "Seen":
        """Parse the text that `dump` returns."""
        pairs = (part.split("-") for part in text.split(",") if part)
        return cls([(int(first), int(last)) for first, last in pairs])

    def dump(self) -> str:
        """Return the intervals as text: `1-40,42-42`."""
        return ",".join(f"{first}-{last}" for first, last in self.intervals)

    def add(self, first: int, last: int) -> list[tuple[int, int]]:
        """Mark a range as seen; return its new parts in order."""
        intervals = self.intervals
        if not intervals or first > intervals[-1][1]:
            if intervals and first == intervals[-1][1] + 1:
                intervals[-1] = (intervals[-1][0], last)
            else:
                intervals.append((first, last))
                del intervals[:-MAX_INTERVALS]
            return [(first, last)]
        return self._add_inside(first, last)

    def _add_inside(self, first: int, last: int) -> list[tuple[int, int]]:
        new: list[tuple[int, int]] = []
        cursor = first
        low = max(0, bisect_right(self.intervals, (first, first)) - 1)
        merged_first, merged_last = first, last
        kept: list[tuple[int, int]] = []
        for seen_first, seen_last in self.intervals[low:]:
            if seen_last < first - 1 or seen_first > last + 1:
                kept.append((seen_first, seen_last))
                continue
            if cursor < seen_first and cursor <= last:
                new.append((cursor, min(seen_first - 1, last)))
            cursor = max(cursor, seen_last + 1)
            merged_first, merged_last = min(merged_first, seen_first), max(merged_last, seen_last)
        if cursor <= last:
            new.append((cursor, last))
        self.intervals[low:] = sorted([*kept, (merged_first, merged_last)])
        del self.intervals[:-MAX_INTERVALS]
        return new


def is_ledger(text: str) -> bool:
    """Return whether `dump` may have written a text."""
    try:
        bounds = [bound for pair in Seen.parse(text).intervals for bound in pair]
    except ValueError:
        return False
    return bounds == sorted(bounds)


def new_positions(runs: tuple[EmitterRun, ...], seen: dict[str, Seen]) -> list[tuple[int, int]]:
    """Mark a body's records as seen; return the positions [start, end) of the new ones."""
    positions: list[tuple[int, int]] = []
    start = 0
    for run in runs:
        if run.emitter_id is None:
            fresh = [(run.first, run.first + run.count - 1)]
        else:
            fresh = seen[run.emitter_id].add(run.first, run.first + run.count - 1)
        for first, last in fresh:
            begin, end = start + first - run.first, start + last + 1 - run.first
            if positions and positions[-1][1] == begin:
                positions[-1] = (positions[-1][0], end)
            else:
                positions.append((begin, end))
        start += run.count
    return positions
