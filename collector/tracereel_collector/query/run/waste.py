"""Waste of a run: attempts that were retried or failed, and the delays between them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.chains import Chain, repeated, waiting_ms
from tracereel_collector.query.run.steps import MILLI, RunStep
from tracereel_collector.query.run.tree import RunTree
from tracereel_collector.query.run.usage import StepUsage, add

_WHOLE = frozenset({"pipeline", "retry", "fallback"})
"""Steps that contain attempts and are not attempts themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Wasted time and cost."""

    time_ms: float
    """Time of wasted steps, overlaps counted once, plus delays."""
    waiting_ms: float
    usage: StepUsage
    steps: Sequence[RunStep]
    """Outermost wasted steps."""


def waste_of(run: RunTree, chains: Sequence[Chain], totals: Mapping[int, StepUsage]) -> Waste:
    """Return the waste of all steps that were retried or did not succeed, descendants included."""
    again = repeated(run)
    lost: list[RunStep] = []
    within: set[int] = set()
    for step in run.steps:
        if step.parent is not None and id(step.parent) in within:
            within.add(id(step))
        elif id(step) in again or (
            step.status in ("failed", "cancelled", "crashed") and step.kind not in _WHOLE
        ):
            within.add(id(step))
            lost.append(step)
    stretches = [(step.began, step.ended) for step in lost if step.ended is not None]
    waited = waiting_ms(chains)
    said = _said(run) if not any(totals[id(step)].is_known for step in lost) else StepUsage()
    return Waste(
        time_ms=covered(stretches) / MILLI + waited,
        waiting_ms=waited,
        usage=add([*(totals[id(step)] for step in lost), said]),
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


def _said(run: RunTree) -> StepUsage:
    """Return the waste reported by events, for runs without known step costs."""
    costs = [row.wasted_cost_usd for row in run.events if row.wasted_cost_usd is not None]
    return StepUsage(cost_usd=max(costs)) if costs else StepUsage()
