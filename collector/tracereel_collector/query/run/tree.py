"""Steps become a tree: each under the one that caused it, siblings in causal order, no step lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.clocks import align
from tracereel_collector.query.run.rows import EmitterRow, EventRow, RunRows, SpanRow
from tracereel_collector.query.run.steps import ENDED, Step, steps_of

STALE_SECONDS = 900
"""What nobody reports on is taken to be running for so long after its last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as a whole: the tree, and the rows it came from."""

    trace_id: str
    trace_ids: tuple[str, ...]
    roots: Sequence[Step]
    steps: Sequence[Step]
    """Every step once, each behind its parent, siblings in order."""
    loose: Sequence[EventRow]
    """Events that belong to no step."""
    events: Sequence[EventRow]
    spans: Sequence[SpanRow]
    clocks: Mapping[str, int]
    """Nanoseconds by which clocks were moved to fit the others."""
    began: int
    """The first moment of the run, by its own clock."""
    ended: int
    """The last moment that is known of."""
    truncated: bool

    @property
    def main(self) -> Step | None:
        """The step that is the run: a pipeline before anything else, then what began first."""
        own = [step for step in self.roots if step.trace_id == self.trace_id] or self.roots
        # Of tries that stand side by side the last one counts.
        own = [step for step in own if step.again is None] or own
        return next((step for step in own if step.kind == "pipeline"), own[0] if own else None)


def build(rows: RunRows) -> Run:
    """The tree of a run."""
    steps, loose = steps_of(rows.events, rows.spans)
    _link(steps, rows.trace_ids)
    _cut_cycles(steps)
    _note_repeats(steps)
    clocks = align(steps)
    below: dict[int, list[Step]] = {}
    for step in steps:
        if step.parent is not None:
            below.setdefault(id(step.parent), []).append(step)
    for step in steps:
        if id(step) in below:
            step.children = sorted(below[id(step)], key=_order)
    roots = sorted((step for step in steps if step.parent is None), key=_order)
    if rows.spans:
        _place_spans(roots)
    moments = [*_moments(steps), *(row.unix_nano for row in loose)]
    return Run(
        trace_id=rows.trace_id,
        trace_ids=rows.trace_ids,
        roots=roots,
        steps=list(walk(roots)),
        loose=loose,
        events=rows.events,
        spans=rows.spans,
        clocks=clocks,
        began=min(moments),
        ended=max(moments),
        truncated=rows.truncated,
    )


def walk(roots: Sequence[Step]) -> Iterator[Step]:
    """Every step of some trees, parents first; however deep they are."""
    waiting = list(reversed(roots))
    while waiting:
        step = waiting.pop()
        yield step
        waiting.extend(reversed(step.children))


def walk_up(roots: Sequence[Step]) -> list[Step]:
    """Every step of some trees, children before their parents."""
    return list(walk(roots))[::-1]


def depths_of(steps: Sequence[Step]) -> list[int]:
    """How far down each step is, of steps that stand behind their parents."""
    depths: dict[int, int] = {}
    found = []
    for step in steps:
        depth = depths.get(id(step.parent), -1) + 1
        if step.children:
            depths[id(step)] = depth
        found.append(depth)
    return found


def is_open(step: Step) -> bool:
    """Whether a step has begun and nothing says that it has ended."""
    return step.status not in ENDED and step.status != "retried"


def settle(run: Run, emitters: Mapping[str, EmitterRow], *, now_unix_nano: int) -> None:
    """Say of every step that has not ended whether it still runs or its emitter is gone."""
    waiting = [step for step in run.steps if is_open(step)]
    if not waiting:
        return
    last = max((row.unix_nano for row in run.events), default=0)
    fresh = now_unix_nano - last < STALE_SECONDS * 1_000_000_000
    for step in waiting:
        emitter = emitters.get(step.clock)
        if emitter is None or emitter.state == "unknown":
            step.status = "running" if fresh else "unknown"
        elif emitter.state == "alive":
            step.status = "running"
        elif emitter.state != "silent" and emitter.missing:
            step.status = "unknown"  # it ended in order; how this step did is still on its way
        else:
            step.status = "crashed"


def _moments(steps: Sequence[Step]) -> list[int]:
    """When steps began and ended; of those that have not ended, what is heard of them last."""
    begun = [step.start + step.shift for step in steps]
    ended = [step.end + step.shift for step in steps if step.end is not None]
    heard = [
        step.events[-1].unix_nano + step.shift for step in steps if step.end is None and step.events
    ]
    return begun + ended + heard


def _order(step: Step) -> tuple[int, int, str]:
    return (step.start + step.shift, step.position, step.id)


def _link(steps: Sequence[Step], trace_ids: Sequence[str]) -> None:
    by_id: dict[tuple[str, str], Step] = {}
    anywhere: dict[str, Step] = {}
    executions: dict[tuple[str, str], Step] = {}
    tops: dict[str, Step] = {}
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
            # The span it hangs under is not known, or not over yet: the execution it is in is.
            parent = executions.get((step.trace_id, step.execution_id))
            if parent is None or parent is step:
                parent = tops.get(step.trace_id)
        if parent is None and not step.has_span:
            top = tops.get(step.trace_id)
            parent = top if top is not None and top.start <= step.start else None
        step.parent = parent if parent is not step else None
    if any(step.parent is None and step.parent_trace_id for step in steps):
        _link_runs(steps, trace_ids)


def _link_runs(steps: Sequence[Step], trace_ids: Sequence[str]) -> None:
    """What a run began with hangs below what the run that started it began with."""
    first: dict[str, Step] = {}
    for step in sorted(steps, key=lambda each: (each.kind != "pipeline", *_order(each))):
        if step.parent is None:
            first.setdefault(step.trace_id, step)
    for step in steps:
        if step.parent is None and step.parent_trace_id in trace_ids:
            above = first.get(step.parent_trace_id)
            step.parent = above if above is not step else None


def _cut_cycles(steps: Sequence[Step]) -> None:
    """Steps that claim to be each other's cause: the first of them is taken to have none."""
    done: set[int] = set()
    for step in steps:
        if step.parent is None or id(step.parent) in done:
            done.add(id(step))
            continue
        path: list[Step] = []
        on_path: set[int] = set()
        each: Step | None = step
        while each is not None and id(each) not in done:
            if id(each) in on_path:
                ring = path[path.index(each) :]
                min(ring, key=_order).parent = None
                break
            path.append(each)
            on_path.add(id(each))
            each = each.parent
        done |= on_path


def _note_repeats(steps: Sequence[Step]) -> None:
    """Executions that say which one they repeat; calls in them, which have their ids, do not count."""
    tries: dict[tuple[str, str], Step] = {}
    for step in steps:
        row = step.closing or step.opening
        if row is not None and row.repeats:
            tries[step.trace_id, row.repeats] = step
    if not tries:
        return
    for step in steps:
        if step.kind in ("agent", "pipeline") or step.parent is None:
            again = tries.get((step.trace_id, step.execution_id))
            # What is later repeats what was before, whatever events claim.
            if again is not None and _order(step) < _order(again):
                step.again = again


def tries_of(step: Step) -> list[Step]:
    """A step and those that tried it again, one after the other."""
    found = [step]
    while (again := found[-1].again) is not None:
        found.append(again)
    return found


def _place_spans(roots: Sequence[Step]) -> None:
    """Spans have no causal clock: they stand as far behind their parent as their times say."""
    for step in walk(roots):
        if step.source == "otlp" and step.parent is not None:
            behind = max(1, step.began - step.parent.began)
            step.position = step.parent.position + behind
    for step in walk_up(roots):
        if step.source == "otlp" and step.children:
            step.position = min(step.position, min(each.position for each in step.children) - 1)
