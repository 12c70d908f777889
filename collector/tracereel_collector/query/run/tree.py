"""Tree of steps: each below its cause, siblings in causal order, no step lost.

Wrong clocks are detected by calls that lie outside of their caller. A step lies within the step that
called it and waited for it. If the two have different clocks, each such pair bounds the offset between
the clocks. A clock is shifted only if the bounds exclude 0.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.idle import without_idle
from tracereel_collector.query.run.order import place_spans
from tracereel_collector.query.run.rows import NO_EMITTER, EmitterRow, RunRows, SpanRow
from tracereel_collector.query.run.steps import ENDED, RunStep, steps_of

STALE_SECONDS: Final = 900
"""Seconds after the last event until open steps of unknown emitters become `unknown`."""
CLOCK_TOLERANCE: Final = 2_000_000
"""Contradiction between clocks that is tolerated, in nanoseconds."""
_DETACHED: Final = frozenset({"Consumer", "Producer"})

Bounds = tuple[int, int | None]
"""Lowest and highest offset of a clock from that of its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTree:
    """Run as a tree, with the rows it was built from."""

    trace_id: str
    trace_ids: tuple[str, ...]
    roots: Sequence[RunStep]
    steps: Sequence[RunStep]
    """All steps once, parents before children, siblings in order."""
    loose: Sequence[EventRow]
    """Events that belong to no step."""
    events: Sequence[EventRow]
    spans: Sequence[SpanRow]
    clocks: Mapping[str, int]
    """Corrections of wrong clocks, in nanoseconds."""
    began: int
    """Start of the run, on the clock of the run."""
    ended: int
    """Last known time of the run."""
    truncated: bool
    now: int = 0
    """Unix nanoseconds at which it was read; 0 if it does not matter."""

    @property
    def main(self) -> RunStep | None:
        """Step that represents the run: the first pipeline among the roots, else the first root."""
        own = [step for step in self.roots if step.trace_id == self.trace_id] or self.roots
        # Of sibling retries, only the last attempt counts.
        own = [step for step in own if step.again is None] or own
        return next((step for step in own if step.kind == "pipeline"), own[0] if own else None)


def build(rows: RunRows, *, attempts: bool = False) -> RunTree:
    """Build the tree of a run; `attempts` keeps steps in which nothing was retried or replaced."""
    steps, loose = steps_of(rows.events, rows.spans, rows.span_events)
    _link(steps, rows.trace_ids)
    _cut_cycles(steps)
    _note_repeats(steps)
    clocks = _align(steps)
    roots = _arrange(steps)
    ordered = list(walk(roots))
    if not attempts and len(kept := without_idle(ordered)) < len(steps):
        steps, roots = kept, _arrange(kept)
        ordered = list(walk(roots))
    if rows.spans:
        place_spans(ordered, rows.events, clocks)
    moments = [*_moments(steps), *(row.unix_nano for row in loose)]
    return RunTree(
        trace_id=rows.trace_id,
        trace_ids=rows.trace_ids,
        roots=roots,
        steps=ordered,
        loose=loose,
        events=rows.events,
        spans=rows.spans,
        clocks=clocks,
        began=min(moments),
        ended=max(moments),
        truncated=rows.truncated,
    )


def _arrange(steps: Sequence[RunStep]) -> list[RunStep]:
    """Set the children of all steps by their parents; return the roots."""
    below: dict[int, list[RunStep]] = {}
    for step in steps:
        if step.parent is not None:
            below.setdefault(id(step.parent), []).append(step)
    for step in steps:
        step.children = sorted(below[id(step)], key=_order) if id(step) in below else ()
    return sorted((step for step in steps if step.parent is None), key=_order)


def walk(roots: Sequence[RunStep]) -> Iterator[RunStep]:
    """Yield all steps, parents first; iterative, so that depth is not limited."""
    waiting = list(reversed(roots))
    while waiting:
        step = waiting.pop()
        yield step
        waiting.extend(reversed(step.children))


def depths_of(steps: Sequence[RunStep]) -> list[int]:
    """Return the depth of each step; parents must precede their children."""
    depths: dict[int, int] = {}
    found = []
    for step in steps:
        depth = depths.get(id(step.parent), -1) + 1
        if step.children:
            depths[id(step)] = depth
        found.append(depth)
    return found


def is_open(step: RunStep) -> bool:
    """Return whether a step has no known end."""
    return step.status not in ENDED and step.status != "retried"


def settle(run: RunTree, emitters: Mapping[str, EmitterRow], *, now_unix_nano: int) -> None:
    """Set the status of steps without an end: running, crashed or unknown."""
    last = max((row.unix_nano for row in run.events), default=0)
    fresh = now_unix_nano - last < STALE_SECONDS * 1_000_000_000
    for step in filter(is_open, run.steps):
        emitter = emitters.get(step.clock, NO_EMITTER)
        if emitter.state == "unknown":
            step.status = "running" if fresh else "unknown"
        elif emitter.state == "alive":
            step.status = "running"
        elif emitter.state != "silent" and emitter.missing:
            step.status = "unknown"  # clean shutdown: the end of this step has not arrived yet
        else:
            step.status = "crashed"


def _moments(steps: Sequence[RunStep]) -> list[int]:
    """Return start and end times; for open steps, the last event's time."""
    begun = [step.start + step.shift for step in steps]
    ended = [step.end + step.shift for step in steps if step.end is not None]
    latest = [
        step.events[-1].unix_nano + step.shift for step in steps if step.end is None and step.events
    ]
    return begun + ended + latest


def _order(step: RunStep) -> tuple[int, int, str]:
    return (step.start + step.shift, step.position, step.id)


def _link(steps: Sequence[RunStep], trace_ids: Sequence[str]) -> None:
    by_id: dict[tuple[str, str], RunStep] = {}
    anywhere: dict[str, RunStep] = {}
    executions: dict[tuple[str, str], RunStep] = {}
    tops: dict[str, RunStep] = {}
    several = len(trace_ids) > 1
    for step in steps:
        anywhere.setdefault(step.id, step)
        if several:
            by_id.setdefault((step.trace_id, step.id), step)
        if step.execution_id and step.kind in ("agent", "pipeline"):
            executions.setdefault((step.trace_id, step.execution_id), step)
        if step.kind == "pipeline" and not step.parent_id:
            tops.setdefault(step.trace_id, step)
    for step in steps:
        parent = by_id.get((step.trace_id, step.parent_id)) if several else None
        parent = parent or anywhere.get(step.parent_id)
        if parent is None and step.parent_id and step.source != "otlp":
            # The parent span is unknown or still open, so use the enclosing execution.
            parent = executions.get((step.trace_id, step.execution_id))
            if parent is None or parent is step:
                parent = tops.get(step.trace_id)
        if parent is None and not step.has_span:
            top = tops.get(step.trace_id)
            parent = top if top is not None and top.start <= step.start else None
        step.parent = parent if parent is not step else None
    if any(step.parent is None and step.parent_trace_id for step in steps):
        _link_runs(steps, trace_ids)


def _link_runs(steps: Sequence[RunStep], trace_ids: Sequence[str]) -> None:
    """Attach the roots of child runs below the first root of their parent run."""
    first: dict[str, RunStep] = {}
    for step in sorted(steps, key=lambda each: (each.kind != "pipeline", *_order(each))):
        if step.parent is None:
            first.setdefault(step.trace_id, step)
    for step in steps:
        if step.parent is None and step.parent_trace_id in trace_ids:
            above = first.get(step.parent_trace_id)
            step.parent = above if above is not step else None


def _cut_cycles(steps: Sequence[RunStep]) -> None:
    """Break parent cycles: the earliest step of each becomes a root."""
    done: set[int] = set()
    for step in steps:
        if step.parent is None or id(step.parent) in done:
            done.add(id(step))
            continue
        path: list[RunStep] = []
        on_path: set[int] = set()
        each: RunStep | None = step
        while each is not None and id(each) not in done:
            if id(each) in on_path:
                ring = path[path.index(each) :]
                min(ring, key=_order).parent = None
                break
            path.append(each)
            on_path.add(id(each))
            each = each.parent
        done |= on_path


def _note_repeats(steps: Sequence[RunStep]) -> None:
    """Link executions to their retries; calls inside of them share the ids and are skipped."""
    tries: dict[tuple[str, str], RunStep] = {}
    for step in steps:
        row = step.closing or step.opening
        if row is not None and row.repeats:
            tries[step.trace_id, row.repeats] = step
    if not tries:
        return
    for step in steps:
        if step.kind in ("agent", "pipeline") or step.parent is None:
            again = tries.get((step.trace_id, step.execution_id))
            # Ignore claims that an earlier step repeats a later one.
            if again is not None and _order(step) < _order(again):
                step.again = again


def tries_of(step: RunStep) -> list[RunStep]:
    """Return a step and its retries, in order."""
    found = [step]
    while (again := found[-1].again) is not None:
        found.append(again)
    return found


def _align(steps: Sequence[RunStep]) -> Mapping[str, int]:
    """Set the shift of every step; return the shifts of wrong clocks in nanoseconds."""
    between: dict[tuple[str, str], Bounds] = {}
    for step in steps:
        parent = step.parent
        if parent is None or parent.clock == step.clock:
            continue
        key = (parent.clock, step.clock)
        low, high = between.get(key, (parent.start - step.start, None))
        if parent.end is not None and step.end is not None and _waited_for(parent, step):
            room = parent.end - step.end
            high = room if high is None else min(high, room)
        between[key] = max(low, parent.start - step.start), high
    shifts = {clock: shift for clock, shift in _spread(between).items() if shift}
    if shifts:
        for step in steps:
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


def _move(low: int, high: int | None) -> int:
    """Return the smallest shift that satisfies the bounds; the middle if both bounds exist."""
    too_early = low > CLOCK_TOLERANCE
    if high is not None and low <= high:
        return (low + high) // 2 if too_early or high < -CLOCK_TOLERANCE else 0
    return low if too_early else 0
