"""A long run in outline: what a picture needs of every step, as a list for each field."""

from collections.abc import Callable
from typing import Any, Final

from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.steps import MILLI, Step
from tracereel_collector.query.run.tree import walk

_FIELDS: Final[dict[str, Callable[[Step], Any]]] = {
    "id": lambda step: step.id,
    "kind": lambda step: step.kind,
    "name": lambda step: step.name,
    "status": lambda step: step.status,
    "agent": lambda step: step.agent,
    "duration_ms": lambda step: None if step.end is None else (step.end - step.start) / MILLI,
    "attempt": lambda step: None if step.closing is None else step.closing.attempt,
    "confidence": lambda step: None if step.closing is None else step.closing.confidence,
    "children": lambda step: len(step.children),
    "clock_shift_ms": lambda step: step.shift / MILLI if step.shift else None,
}


def outline_of(analysis: Analysis) -> dict[str, list[Any]]:
    """Every step of the run, in the order of the tree: lists of equal length, by field."""
    steps, totals = list(walk(analysis.run.roots)), analysis.totals
    origin = analysis.run.began
    depths: dict[int, int] = {}
    for step in steps:
        depths[id(step)] = depths.get(id(step.parent), -1) + 1
    usages = [totals[id(step)] for step in steps]
    return {
        "depth": [depths[id(step)] for step in steps],
        "offset_ms": [(step.start + step.shift - origin) / MILLI for step in steps],
        "tokens": [usage.tokens for usage in usages],
        "cost_usd": [usage.cost_usd for usage in usages],
        **{name: [field(step) for step in steps] for name, field in _FIELDS.items()},
    }
