"""Analysis of a run: usage, critical path, chains of attempts, errors and waste."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tracereel_collector.query.run.calls import Repeated, repeated_calls
from tracereel_collector.query.run.chains import Chain, chains_of
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.identity import RunIdentity, identity_of
from tracereel_collector.query.run.outcomes import Outcomes, outcomes_of
from tracereel_collector.query.run.steps import MILLI, RETRY, RunStep
from tracereel_collector.query.run.tree import RunTree, tries_of

_WHOLE = frozenset({"pipeline", "retry", "fallback"})
"""Steps that contain attempts and are not attempts themselves."""
_TOLERANCE = 1_000_000
"""Nanoseconds by which a child may end after its parent."""


class StepUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens and cost; `None` where unknown."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether tokens or cost are known."""
        return self.tokens is not None or self.cost_usd is not None


NOTHING = StepUsage()


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Time range and the step that was running; `None` between steps."""

    step: RunStep | None
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """Error of a step."""

    step: RunStep
    error_type: str
    message: str
    code: str = ""
    category: str = ""
    stage: str = ""
    at: int
    """Time of the error, on the clock of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Time and cost of attempts that were retried or failed, and of the delays between them."""

    time_ms: float
    """Time of wasted steps, overlaps counted once, plus delays."""
    waiting_ms: float
    usage: StepUsage
    steps: Sequence[RunStep]
    """Outermost wasted steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Run with all derived data; each part is calculated once."""

    run: RunTree
    totals: Mapping[int, StepUsage]
    """Usage of each step including descendants, by `id(step)`."""
    prices: Mapping[str, float]
    usage: StepUsage
    """Usage of the whole run."""
    chains: Sequence[Chain]
    outcomes: Outcomes
    waste: Waste
    path: Sequence[Segment]
    first_error: StepFailure | None
    last_error: StepFailure | None
    """Error that the run ended with; `None` if it did not fail."""
    identity: RunIdentity

    @property
    def state(self) -> str:
        """State of the run."""
        return self.identity.status


def analyse(run: RunTree, prices: Mapping[str, float]) -> Analysis:
    """Analyse a run."""
    repeated = repeated_calls(run.steps)
    totals = total_usage(run.steps, prices, repeated)
    chains = chains_of(run)
    identity = identity_of(run, repeated)
    return Analysis(
        run=run,
        totals=totals,
        prices=prices,
        usage=add(totals[id(step)] for step in run.roots),
        chains=chains,
        outcomes=outcomes_of(run, chains),
        waste=_waste(run, chains, totals),
        path=_critical_path(run),
        first_error=_first_failure(run),
        last_error=_last_failure(run, identity),
        identity=identity,
    )


def total_usage(
    steps: Sequence[RunStep], prices: Mapping[str, float], repeated: Repeated
) -> dict[int, StepUsage]:
    """Return the usage of every step including its descendants, by `id(step)`.

    Nothing is counted twice: of several steps of one call only one counts; figures of an agent count only
    if none of its model calls are known, and figures of a pipeline only if nothing below it is known.
    `steps` must be all steps of a run, parents before children.
    """
    totals: dict[int, StepUsage] = {}
    direct: dict[int, bool] = {}
    for step in reversed(steps):
        own = _own_usage(step, prices)
        below, has_calls = NOTHING, False
        if step.children:
            below = add(totals[id(each)] for each in step.children)
            has_calls = any(direct[id(each)] for each in step.children)
        if step.kind == "llm":
            total = below if id(step) in repeated else add((own, below))
            totals[id(step)], direct[id(step)] = total, total.is_known
        elif step.kind == "agent":
            totals[id(step)] = below if has_calls else add((own, below))
            direct[id(step)] = False
        else:
            totals[id(step)] = below if below.is_known else own
            direct[id(step)] = has_calls
    return totals


def _own_usage(step: RunStep, prices: Mapping[str, float]) -> StepUsage:
    """Return the reported usage of a step, or the cost by the price table."""
    row = step.closing or step.span
    if row is None:
        return NOTHING
    cost = row.cost_usd
    if cost is None and step.kind == "llm":
        cost = prices.get(step.id)
    if cost is row.tokens is row.prompt_tokens is row.completion_tokens is None:
        return NOTHING
    return StepUsage(row.tokens, row.prompt_tokens, row.completion_tokens, cost)


def add(usages: Iterable[StepUsage]) -> StepUsage:
    """Return the sum of known values."""
    many = [each for each in usages if each is not NOTHING]
    if len(many) < 2:
        return many[0] if many else NOTHING
    costs = [each.cost_usd for each in many if each.cost_usd is not None]
    return StepUsage(
        _total(each.tokens for each in many),
        _total(each.prompt_tokens for each in many),
        _total(each.completion_tokens for each in many),
        math.fsum(costs) if costs else None,
    )


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _critical_path(run: RunTree) -> list[Segment]:
    """Return contiguous segments that cover the run: the step it was waiting for at each moment.

    The walk starts at the end. The child that ended last delayed its parent; before that child began, the
    child that had ended last by then; remaining time belongs to the parent itself.
    """
    found: list[Segment] = []
    waiting = [_Frame(None, run.began, run.ended, run.roots)]
    while waiting:
        frame = waiting[-1]
        child = frame.next_child()
        if child is None:
            waiting.pop()
            if frame.cursor > frame.start:
                found.append(Segment(frame.step, frame.start, frame.cursor))
            continue
        end = min(child.ended or frame.cursor, frame.cursor)
        if frame.cursor > end:
            found.append(Segment(frame.step, end, frame.cursor))
        frame.cursor = max(child.began, frame.start)
        waiting.append(_Frame(child, frame.cursor, end, child.children))
    joined: list[Segment] = []
    for segment in reversed(found):
        if joined and joined[-1].step is segment.step:
            joined[-1] = Segment(segment.step, joined[-1].start, segment.end)
        else:
            joined.append(segment)
    return joined


class _Frame:
    """Step being walked, with the position up to which its time is assigned."""

    __slots__ = ("_children", "cursor", "start", "step")

    def __init__(
        self, step: RunStep | None, start: int, end: int, children: Sequence[RunStep]
    ) -> None:
        self.step, self.start, self.cursor = step, start, end
        self._children = sorted(children, key=lambda each: (_end(each, end), each.began))

    def next_child(self) -> RunStep | None:
        """Return the child that ended last before the cursor."""
        while self._children:
            child = self._children.pop()
            end = _end(child, self.cursor)
            if end <= self.start or self.cursor <= self.start:
                return None  # it ended before its parent began, so the parent did not wait for it
            if end <= self.cursor + _TOLERANCE and child.began < self.cursor:
                return child
        return None


def _end(step: RunStep, otherwise: int) -> int:
    return otherwise if step.ended is None else step.ended


def failure_of(step: RunStep) -> StepFailure | None:
    """Return the failure of a step; `None` if it did not fail."""
    crashed = step.status == "crashed"
    if not step.is_failed and not crashed:
        return None
    at = _end(step, step.began)
    if step.closing is not None:
        return _reported(step, step.closing, at)
    error_type, message = "crashed", "its emitter is gone"
    if not crashed:
        span = step.span
        error_type, message = (span.error_type, span.status_message) if span else ("", "")
    return StepFailure(step=step, error_type=error_type, message=message, at=at)


def _last_failure(run: RunTree, identity: RunIdentity) -> StepFailure | None:
    """Return the error of the step with which the run ended."""
    last = identity.last
    if last is not None:
        for step in run.steps:
            if step.closing is last or step.span is last:
                return failure_of(step)
    return None if run.main is None else failure_of(run.main)


def _first_failure(run: RunTree) -> StepFailure | None:
    """Return the earliest error, handled or not; of simultaneous ones the innermost."""
    found: list[StepFailure] = []
    retried = any(row.event_type == RETRY for row in run.events)
    for step in run.steps:
        if step.status != "success" and (failure := failure_of(step)) is not None:
            found.append(failure)
        if retried:
            found += [
                _reported(step, row, row.unix_nano + step.shift)
                for row in step.events
                if row.event_type == RETRY and row is not step.closing
            ]
    if not found:
        return None
    places = {id(step): place for place, step in enumerate(run.steps)}
    # Later positions are deeper in the tree.
    return min(found, key=lambda each: (each.at, -places[id(each.step)]))


def cause_of(failure: StepFailure) -> StepFailure:
    """Return the origin of an error: descend into the failing child that ended last."""
    origin = failure
    while True:
        failing = [
            found
            for child in origin.step.children
            if (found := failure_of(child)) is not None and found.at <= failure.at + _TOLERANCE
        ]
        if not failing:
            return origin
        origin = max(failing, key=lambda each: (each.at, each.step.position))


def was_handled(failure: StepFailure) -> bool:
    """Return whether the failing step or an ancestor finally succeeded, possibly by a retry."""
    step: RunStep | None = failure.step
    while step is not None:
        if tries_of(step)[-1].status in ("success", "partial_success"):
            return True
        step = step.parent
    return False


def _reported(step: RunStep, row: EventRow, at: int) -> StepFailure:
    error_type, message = row.error_type, row.error_message
    if not error_type and ":" in message:  # retry events give the error as `Type: message`
        kind, _, rest = message.partition(":")
        if kind.isidentifier():
            error_type, message = kind, rest.strip()
    return StepFailure(
        step=step,
        error_type=error_type,
        message=message,
        code=row.error_code,
        category=row.error_category,
        stage=row.stage,
        at=at,
    )


def _waste(run: RunTree, chains: Sequence[Chain], totals: Mapping[int, StepUsage]) -> Waste:
    """Return the waste of all steps that were retried or did not succeed, descendants included."""
    lost: list[RunStep] = []
    within: set[int] = set()
    for step in run.steps:
        if step.parent is not None and id(step.parent) in within:
            within.add(id(step))
        elif (step.status == "retried" or step.again is not None) or (
            step.status in ("failed", "cancelled", "crashed") and step.kind not in _WHOLE
        ):
            within.add(id(step))
            lost.append(step)
    stretches = [(step.began, step.ended) for step in lost if step.ended is not None]
    waited = sum(link.waited_ms or 0.0 for chain in chains for link in chain.links)
    usages = [totals[id(step)] for step in lost]
    if not any(usage.is_known for usage in usages):
        # Without known step costs, the waste that events report counts.
        costs = [row.wasted_cost_usd for row in run.events if row.wasted_cost_usd is not None]
        usages.append(StepUsage(cost_usd=max(costs, default=None)))
    return Waste(
        time_ms=covered(stretches) / MILLI + waited,
        waiting_ms=waited,
        usage=add(usages),
        steps=lost,
    )


def covered(stretches: Iterable[tuple[int, int]]) -> int:
    """Return the length of the union of time ranges."""
    total, reached = 0, None
    for start, end in sorted(stretches):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
