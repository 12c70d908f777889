"""Tokens and cost of a tree, without double counting.

Model calls are the most precise source. Figures of an agent count only if none of its calls are known,
and figures of a pipeline only if nothing below it is known.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tracereel_collector.query.run.steps import RunStep


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


def own_usage(step: RunStep, prices: Mapping[str, float]) -> StepUsage:
    """Return the reported usage of a step, or the cost by the price table."""
    priced = prices.get(step.id) if step.kind == "llm" else None
    row = step.closing
    if row is not None:
        cost = row.cost_usd if row.cost_usd is not None else priced
        if cost is row.tokens is row.prompt_tokens is row.completion_tokens is None:
            return NOTHING
        return StepUsage(row.tokens, row.prompt_tokens, row.completion_tokens, cost)
    span = step.span
    if span is not None:
        cost = span.cost_usd if span.cost_usd is not None else priced
        return StepUsage(span.tokens, span.prompt_tokens, span.completion_tokens, cost)
    return NOTHING


def total_usage(steps: Sequence[RunStep], prices: Mapping[str, float]) -> dict[int, StepUsage]:
    """Return the usage of every step including its descendants, by `id(step)`.

    `steps` must be all steps of a run, parents before children.
    """
    totals: dict[int, StepUsage] = {}
    direct: dict[int, bool] = {}
    for step in reversed(steps):
        own = own_usage(step, prices)
        below, has_calls = NOTHING, False
        if step.children:
            below = add(totals[id(each)] for each in step.children)
            has_calls = any(direct[id(each)] for each in step.children)
        if step.kind == "llm":
            # A call that wraps another reports the same tokens.
            total = own if own.is_known else below
            totals[id(step)], direct[id(step)] = total, total.is_known
        elif step.kind == "agent":
            totals[id(step)] = below if has_calls else add((own, below))
            direct[id(step)] = False
        else:
            totals[id(step)] = below if below.is_known else own
            direct[id(step)] = has_calls
    return totals


def add(usages: Iterable[StepUsage]) -> StepUsage:
    """Return the sum of known values."""
    many = [each for each in usages if each is not NOTHING]
    if len(many) < 2:
        return many[0] if many else NOTHING
    return StepUsage(
        _total([each.tokens for each in many]),
        _total([each.prompt_tokens for each in many]),
        _total([each.completion_tokens for each in many]),
        _money([each.cost_usd for each in many]),
    )


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _money(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None
