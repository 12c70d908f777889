"""What a run spent for nothing: tries that were repeated or failed, and the waits between them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.chains import Chain, repeated, waiting_ms
from tracereel_collector.query.run.steps import MILLI, Step
from tracereel_collector.query.run.tree import Run
from tracereel_collector.query.run.usage import Usage, add

_WHOLE = frozenset({"pipeline", "retry", "fallback"})
"""Not tries themselves, but what tries were made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Time and money that brought nothing."""

    time_ms: float
    """Time in which something went on that came to nothing, and waits; overlaps count once."""
    waiting_ms: float
    usage: Usage
    steps: Sequence[Step]
    """The outermost steps that came to nothing."""


def waste_of(run: Run, chains: Sequence[Chain], totals: Mapping[int, Usage]) -> Waste:
    """Every try that was repeated or did not succeed, with all that was done in it."""
    again = repeated(run)
    lost: list[Step] = []
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
    said = _said(run) if not any(totals[id(step)].is_known for step in lost) else Usage()
    return Waste(
        time_ms=covered(stretches) / MILLI + waited,
        waiting_ms=waited,
        usage=add([*(totals[id(step)] for step in lost), said]),
        steps=lost,
    )


def covered(stretches: Iterable[tuple[int, int]]) -> int:
    """How much time some stretches cover together."""
    total, reached = 0, None
    for start, end in sorted(stretches):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total


def _said(run: Run) -> Usage:
    """What the events say was wasted, where no cost of a step is known."""
    costs = [row.wasted_cost_usd for row in run.events if row.wasted_cost_usd is not None]
    return Usage(cost_usd=max(costs)) if costs else Usage()
