"""Correction of wrong clocks, detected by calls that lie outside of their caller.

A step lies within the step that called it and waited for it. If the two have different clocks, each
such pair bounds the offset between the clocks. A clock is shifted only if the bounds exclude 0.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from tracereel_collector.query.run.steps import RunStep

TOLERANCE: Final = 2_000_000
"""Contradiction between clocks that is tolerated, in nanoseconds."""
_DETACHED: Final = frozenset({"Consumer", "Producer"})

Bounds = tuple[int | None, int | None]


def align(steps: Iterable[RunStep]) -> Mapping[str, int]:
    """Set the shift of every step; return the shifts of wrong clocks in nanoseconds."""
    every = list(steps)
    between: dict[tuple[str, str], Bounds] = {}
    for step in every:
        parent = step.parent
        if parent is None or parent.clock == step.clock:
            continue
        low: int | None = parent.start - step.start
        high = None
        if parent.end is not None and step.end is not None and _waited_for(parent, step):
            high = parent.end - step.end
        key = (parent.clock, step.clock)
        known = between.get(key, (None, None))
        between[key] = (_most(known[0], low), _least(known[1], high))
    shifts = {clock: shift for clock, shift in _spread(between).items() if shift}
    if shifts:
        for step in every:
            step.shift = shifts.get(step.clock, 0)
    return shifts


def _waited_for(parent: RunStep, child: RunStep) -> bool:
    """Return whether the child is known to have ended before its parent."""
    if child.span is not None and child.source == "otlp":
        return child.span.span_kind not in _DETACHED
    if parent.closing is None or child.closing is None:
        return False
    return child.closing.hlc < parent.closing.hlc


def _spread(between: Mapping[tuple[str, str], Bounds]) -> dict[str, int]:
    """Add up shifts along calls, starting at clocks without callers."""
    called = {child for _, child in between}
    onward: dict[str, list[tuple[str, int]]] = {}
    for (parent, child), bounds in between.items():
        move = _move(*bounds)
        onward.setdefault(parent, []).append((child, move))
        onward.setdefault(child, []).append((parent, -move))
    shifts: dict[str, int] = {}
    for start in [*(each for each in onward if each not in called), *onward]:
        if start in shifts:
            continue
        shifts[start] = 0
        waiting = deque([start])
        while waiting:
            clock = waiting.popleft()
            for other, move in onward[clock]:
                if other not in shifts:
                    shifts[other] = shifts[clock] + move
                    waiting.append(other)
    return shifts


def _move(low: int | None, high: int | None) -> int:
    """Return the smallest shift that satisfies the bounds; the middle if both bounds exist."""
    too_early = low is not None and low > TOLERANCE
    too_late = high is not None and high < -TOLERANCE
    if low is not None and high is not None and low <= high:
        return (low + high) // 2 if too_early or too_late else 0
    return low if too_early and low is not None else 0


def _most(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return max(known) if known else None


def _least(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return min(known) if known else None
