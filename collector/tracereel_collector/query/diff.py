"""Comparison of two runs: added, removed and changed steps, and the first difference."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracereel_collector.query.replayable import ReplayableRun
from tracereel_collector.query.run.align import Pair, aligned, input_hash
from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.serialize import milliseconds, shown_error
from tracereel_collector.query.run.steps import DECISION, RunStep
from tracereel_collector.query.run.usage import NOTHING, StepUsage
from tracereel_collector.query.trace import Traces, head_of

MAX_SHOWN = 1_000
"""Maximum steps listed; `counts` counts all."""
_AT_START = frozenset({"added", "removed", "input", "model", "attempt"})
"""Differences visible when a step begins; others become visible when it ends."""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Pair of aligned steps and their differences."""

    pair: Pair
    change: str
    """added, removed, changed or same."""
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    offset_ms: float = 0.0
    """Time of the first difference, from the start of its run."""

    @property
    def first_field(self) -> str:
        """Field that differed first."""
        early = [name for name in self.fields if name in _AT_START]
        return next(iter([*early, *self.fields]), self.change)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Query of `GET /v1/traces/{a}/diff/{b}`."""

    traces: Traces
    replayable: ReplayableRun

    def document(
        self, tenant: str, a: str, b: str, *, everything: bool = False, linked: bool = True
    ) -> bytes:
        """Return the comparison as JSON.

        Raises:
            UnknownResourceError: the tenant lacks one of the traces.
        """
        first = self.traces.analysis(tenant, a, linked=linked)
        second = self.traces.analysis(tenant, b, linked=linked)
        fork = self.replayable.fork_of(tenant, a, b)
        return msgspec.json.encode({**compared(first, second, everything=everything), "fork": fork})


def compared(a: Analysis, b: Analysis, *, everything: bool = False) -> dict[str, Any]:
    """Return the differences of the second run from the first."""
    differences = [_difference(pair, a, b) for pair in aligned(a.run.roots, b.run.roots)]
    real = [each for each in differences if each.change != "same"]
    first = min(real, key=lambda each: (each.offset_ms, -each.pair.depth), default=None)
    listed = differences if everything else real
    changes = [each.change for each in differences]
    return {
        "a": _about(a),
        "b": _about(b),
        "same": not real,
        "first_difference": _shown(first, a, b) if first is not None else None,
        "counts": {
            "steps": len(differences),
            **{name: changes.count(name) for name in ("same", "changed", "added", "removed")},
        },
        "totals": {
            "duration_ms": _delta(_length(a), _length(b)),
            "tokens": _delta(a.usage.tokens, b.usage.tokens),
            "cost_usd": _delta(a.usage.cost_usd, b.usage.cost_usd),
            "wasted_ms": _delta(a.waste.time_ms, b.waste.time_ms),
            "steps": _delta(len(a.run.steps), len(b.run.steps)),
            "failed": _delta(_failed(a), _failed(b)),
        },
        "steps": [_shown(each, a, b) for each in listed[:MAX_SHOWN]],
        "truncated": len(listed) > MAX_SHOWN or a.run.truncated or b.run.truncated,
    }


def _difference(pair: Pair, a: Analysis, b: Analysis) -> RunDifference:
    one, other = pair.a, pair.b
    if one is None or other is None:
        run = b.run if one is None else a.run
        offset = milliseconds(pair.shown.began - run.began) or 0.0
        return RunDifference(pair, "added" if one is None else "removed", {}, offset)
    fields = _fields(one, other, a.totals[id(one)], b.totals[id(other)])
    if not fields:
        return RunDifference(pair, "same")
    starts = any(name in _AT_START for name in fields)
    moments = [_moment(one, a, at_start=starts), _moment(other, b, at_start=starts)]
    return RunDifference(pair, "changed", fields, min(moments))


def _moment(step: RunStep, analysis: Analysis, *, at_start: bool) -> float:
    ended = step.ended if step.ended is not None else analysis.run.ended
    return milliseconds((step.began if at_start else ended) - analysis.run.began) or 0.0


def _fields(
    one: RunStep, other: RunStep, used: StepUsage, uses: StepUsage
) -> dict[str, dict[str, Any]]:
    """Return the fields in which two steps differ; duration and cost are ignored."""
    found: dict[str, dict[str, Any]] = {}
    if input_hash(one) != input_hash(other):
        found["input"] = _texts(_input(one), _input(other))
    for name, left, right in (
        ("model", _model(one), _model(other)),
        ("status", one.status, other.status),
        ("error", shown_error(one), shown_error(other)),
    ):
        if left != right:
            found[name] = {"a": left, "b": right}
    decided, decides = _decisions(one), _decisions(other)
    if [each[0] for each in decided] != [each[0] for each in decides]:
        found["decision"] = _decision_change(decided, decides)
    if _output_hash(one) != _output_hash(other):
        found["output"] = _texts(_output(one), _output(other))
    if one.kind == "llm" and used.tokens != uses.tokens:
        found["tokens"] = {"a": used.tokens, "b": uses.tokens}
    return found


def _decisions(step: RunStep) -> list[tuple[tuple[Any, ...], EventRow]]:
    """Return the decisions of a step in order, each as comparison key and event."""
    rows = [row for row in step.events if row.event_type == DECISION]
    if step.closing is not None and step.closing.decision_type:
        rows.append(step.closing)
    return [
        ((row.decision_type, row.chosen, row.output_hash if row.event_type == DECISION else 0), row)
        for row in rows
    ]


def _decision_change(
    one: Sequence[tuple[tuple[Any, ...], EventRow]],
    other: Sequence[tuple[tuple[Any, ...], EventRow]],
) -> dict[str, Any]:
    """Return the first decision that differs, with its reasoning."""
    place = next(
        (
            at
            for at, (left, right) in enumerate(zip(one, other, strict=False))
            if left[0] != right[0]
        ),
        min(len(one), len(other)),
    )
    return {
        "number": place + 1,
        "a": _decided(one[place][1]) if place < len(one) else None,
        "b": _decided(other[place][1]) if place < len(other) else None,
    }


def _decided(row: EventRow) -> dict[str, Any]:
    shown = {
        "type": row.decision_type,
        "chosen": row.chosen,
        "reasoning": row.reasoning,
        "confidence": row.confidence,
        "output": row.output if row.event_type == DECISION else "",
    }
    return {name: value for name, value in shown.items() if value not in (None, "")}


def _texts(one: str, other: str) -> dict[str, Any]:
    """Return both texts; for two JSON objects also the keys that differ."""
    shown: dict[str, Any] = {"a": one or None, "b": other or None}
    try:
        left, right = msgspec.json.decode(one), msgspec.json.decode(other)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return shown
    if isinstance(left, dict) and isinstance(right, dict):
        shown["keys"] = {
            "added": sorted(right.keys() - left.keys()),
            "removed": sorted(left.keys() - right.keys()),
            "changed": sorted(
                name for name in left.keys() & right.keys() if left[name] != right[name]
            ),
        }
    return shown


def _shown(difference: RunDifference, a: Analysis, b: Analysis) -> dict[str, Any]:
    pair = difference.pair
    step = pair.shown
    used = a.totals[id(pair.a)] if pair.a is not None else NOTHING
    uses = b.totals[id(pair.b)] if pair.b is not None else NOTHING
    took = milliseconds(pair.a.duration_ns) if pair.a is not None else None
    takes = milliseconds(pair.b.duration_ns) if pair.b is not None else None
    return {
        "change": difference.change,
        "what": difference.first_field,
        "depth": pair.depth,
        "kind": step.kind,
        "name": step.name,
        "agent": step.agent or None,
        "a": pair.a.id if pair.a is not None else None,
        "b": pair.b.id if pair.b is not None else None,
        "offset_ms": difference.offset_ms,
        "fields": difference.fields,
        "duration_ms": _delta(took, takes),
        "tokens": _delta(used.tokens, uses.tokens),
        "cost_usd": _delta(used.cost_usd, uses.cost_usd),
    }


def _delta(one: float | None, other: float | None) -> dict[str, float | None]:
    known = one is not None and other is not None
    return {"a": one, "b": other, "delta": other - one if known else None}  # type: ignore[operator]


def _about(analysis: Analysis) -> dict[str, Any]:
    head = head_of(analysis)
    return {name: head[name] for name in ("trace_id", "time", "state", "session_id")}


def _length(analysis: Analysis) -> float | None:
    return milliseconds(analysis.run.ended - analysis.run.began)


def _failed(analysis: Analysis) -> int:
    return sum(step.is_failed for step in analysis.run.steps)


def _model(step: RunStep) -> str:
    span = step.span
    for row in (step.closing, step.opening):
        if row is not None and row.llm_model:
            return row.llm_model
    return span.model if span is not None else ""


def _input(step: RunStep) -> str:
    for row in (step.opening, step.closing):
        if row is not None and row.input_hash:
            return row.input
    return ""


def _output(step: RunStep) -> str:
    return step.closing.output if step.closing is not None else ""


def _output_hash(step: RunStep) -> int:
    return step.closing.output_hash if step.closing is not None else 0
