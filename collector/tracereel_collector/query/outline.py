"""Outline of a long run: the fields that a chart needs, as columns."""

from typing import Any

from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.steps import MILLI
from tracereel_collector.query.run.tree import depths_of


def outline_of(analysis: Analysis) -> dict[str, list[Any]]:
    """Return lists of equal length by field, with all steps in tree order."""
    steps, totals = analysis.run.steps, analysis.totals
    origin = analysis.run.began
    usages = [totals[id(step)] for step in steps]
    closing = [step.closing for step in steps]
    return {
        "depth": depths_of(steps),
        "offset_ms": [(step.start + step.shift - origin) / MILLI for step in steps],
        "tokens": [usage.tokens for usage in usages],
        "cost_usd": [usage.cost_usd for usage in usages],
        "id": [step.id for step in steps],
        "kind": [step.kind for step in steps],
        "name": [step.name for step in steps],
        "status": [step.status for step in steps],
        "agent": [step.agent for step in steps],
        "duration_ms": [
            None if step.end is None else (step.end - step.start) / MILLI for step in steps
        ],
        "attempt": [None if row is None else row.attempt for row in closing],
        "confidence": [None if row is None else row.confidence for row in closing],
        "children": [len(step.children) for step in steps],
        "clock_shift_ms": [step.shift / MILLI if step.shift else None for step in steps],
    }
