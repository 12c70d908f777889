"""Tokens and money of a tree, each counted once.

Calls of models are the finest grain; what an agent says of itself counts where no call of its own is
known, and what a pipeline says where nothing below it is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tracereel_collector.query.run.steps import Step


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What something took; None where nothing is known."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything is."""
        return self.tokens is not None or self.cost_usd is not None


NOTHING = Usage()


def own_usage(step: Step, prices: Mapping[str, float]) -> Usage:
    """What a step says of itself, or what the price of the day makes of it."""
    priced = prices.get(step.id) if step.kind == "llm" else None
    row = step.closing
    if row is not None:
        cost = row.cost_usd if row.cost_usd is not None else priced
        if cost is row.tokens is row.prompt_tokens is row.completion_tokens is None:
            return NOTHING
        return Usage(row.tokens, row.prompt_tokens, row.completion_tokens, cost)
    span = step.span
    if span is not None:
        cost = span.cost_usd if span.cost_usd is not None else priced
        return Usage(span.tokens, span.prompt_tokens, span.completion_tokens, cost)
    return NOTHING


def total_usage(steps: Sequence[Step], prices: Mapping[str, float]) -> dict[int, Usage]:
    """What every step took with all that is below it, by the identity of the step.

    The steps are those of a whole run, each behind its parent.
    """
    totals: dict[int, Usage] = {}
    direct: dict[int, bool] = {}
    for step in reversed(steps):
        own = own_usage(step, prices)
        below, has_calls = NOTHING, False
        if step.children:
            below = add(totals[id(each)] for each in step.children)
            has_calls = any(direct[id(each)] for each in step.children)
        if step.kind == "llm":
            # A call that wraps another tells of the same tokens.
            total = own if own.is_known else below
            totals[id(step)], direct[id(step)] = total, total.is_known
        elif step.kind == "agent":
            totals[id(step)] = below if has_calls else add((own, below))
            direct[id(step)] = False
        else:
            totals[id(step)] = below if below.is_known else own
            direct[id(step)] = has_calls
    return totals


def add(usages: Iterable[Usage]) -> Usage:
    """Several together; what one does not know, the others say."""
    many = [each for each in usages if each is not NOTHING]
    if len(many) < 2:
        return many[0] if many else NOTHING
    return Usage(
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
