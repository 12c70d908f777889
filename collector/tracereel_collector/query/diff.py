"""Comparison of two runs: added, removed and changed steps, and the first difference.

Steps match if their parents match and kind, agent and name are equal; model calls match whatever the model.
Of several candidates, those with the same input match first, then those at the same position. Contents are
compared in the form that every sender has in common; ids and times that are new in every run do not count.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tracereel.content import Content
from tracereel_collector.query.content.many import contents_of
from tracereel_collector.query.content.short import MAX_TEXT
from tracereel_collector.query.content_diff import content_changes
from tracereel_collector.query.fresh_ids import without_fresh
from tracereel_collector.query.replayable import ReplayableRun
from tracereel_collector.query.run.analysis import NOTHING, Analysis, StepUsage
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.serialize import filled, milliseconds, shown_error
from tracereel_collector.query.run.steps import DECISION, NO_EVENT, RunStep
from tracereel_collector.query.run.summary import counts
from tracereel_collector.query.trace import Traces, head_of

MAX_SHOWN = 1_000
"""Maximum steps listed; `counts` counts all."""
MAX_READ: Final = 2_000
"""Pairs of steps whose content is read; of the others, what the tree has is compared."""
_AT_ONCE: Final = 40
"""Steps of each run whose content is in memory at a time."""
_AT_START = frozenset({"added", "removed", "input", "model", "attempt", "parameters", "tools"})
"""Differences visible when a step begins; others become visible when it ends."""

Key = tuple[str, str, str]
Contents = tuple[Content | None, Content | None]


@dataclass(frozen=True, slots=True)
class Pair:
    """Matching steps of two runs; one is `None` if there is no match."""

    a: RunStep | None
    b: RunStep | None
    depth: int

    @property
    def shown(self) -> RunStep:
        """Step to show; that of the second run if both exist."""
        step = self.b if self.b is not None else self.a
        assert step is not None  # noqa: S101 - a pair of nothing is never made
        return step


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
    reader: RunReader

    def document(
        self, tenant: str, a: str, b: str, *, everything: bool = False, linked: bool = True
    ) -> bytes:
        """Return the comparison as JSON."""
        first = self.traces.analysis(tenant, a, linked=linked)
        second = self.traces.analysis(tenant, b, linked=linked)
        fork = self.replayable.fork_of(tenant, a, b)
        found = compared(
            first, second, everything=everything, read=lambda pairs: self._contents(tenant, pairs)
        )
        return msgspec.json.encode({**found, "fork": fork})

    def _contents(self, tenant: str, pairs: Sequence["Pair"]) -> Iterator[Contents]:
        """Yield the contents of matching steps."""
        for at in range(0, len(pairs), _AT_ONCE):
            some = pairs[at : at + _AT_ONCE]
            sides = [
                contents_of(self.reader, tenant, [step for step in side if step is not None])
                for side in ([pair.a for pair in some], [pair.b for pair in some])
            ]
            yield from zip(*sides, strict=True)


def compared(
    a: Analysis,
    b: Analysis,
    *,
    everything: bool = False,
    read: Callable[[Sequence[Pair]], Iterator[Contents]] | None = None,
) -> dict[str, Any]:
    """Return the differences of the second run from the first; `read` gives contents of pairs."""
    pairs = aligned(a.run.roots, b.run.roots)
    matching = [pair for pair in pairs if pair.a is not None and pair.b is not None]
    contents = iter(read(matching[:MAX_READ])) if read is not None else iter(())
    differences = [
        _difference(pair, a, b, next(contents, (None, None)) if pair.a and pair.b else (None, None))
        for pair in pairs
    ]
    real = [each for each in differences if each.change != "same"]
    first = min(real, key=lambda each: (each.offset_ms, -each.pair.depth), default=None)
    listed = differences if everything else real
    changes = [each.change for each in differences]
    figures = [counts(each) for each in (a, b)]
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
            "duration_ms": _delta(*(each["duration_ms"] for each in figures)),
            "tokens": _delta(a.usage.tokens, b.usage.tokens),
            "cost_usd": _delta(a.usage.cost_usd, b.usage.cost_usd),
            "wasted_ms": _delta(a.waste.time_ms, b.waste.time_ms),
            "steps": _delta(len(a.run.steps), len(b.run.steps)),
            "errors": _delta(*(each["errors"] for each in figures)),
        },
        "steps": [_shown(each, a, b) for each in listed[:MAX_SHOWN]],
        "truncated": len(listed) > MAX_SHOWN or a.run.truncated or b.run.truncated,
        "unread": max(0, len(matching) - MAX_READ) if read is not None else 0,
    }


def _difference(pair: Pair, a: Analysis, b: Analysis, contents: Contents) -> RunDifference:
    one, other = pair.a, pair.b
    if one is None or other is None:
        run = b.run if one is None else a.run
        offset = milliseconds(pair.shown.began - run.began) or 0.0
        return RunDifference(pair, "added" if one is None else "removed", {}, offset)
    fields = _fields(one, other, a.totals[id(one)], b.totals[id(other)], contents)
    if not fields:
        return RunDifference(pair, "same")
    starts = any(name in _AT_START for name in fields)
    moments = [_moment(one, a, at_start=starts), _moment(other, b, at_start=starts)]
    return RunDifference(pair, "changed", fields, min(moments))


def _moment(step: RunStep, analysis: Analysis, *, at_start: bool) -> float:
    ended = step.ended if step.ended is not None else analysis.run.ended
    return milliseconds((step.began if at_start else ended) - analysis.run.began) or 0.0


def _fields(
    one: RunStep, other: RunStep, used: StepUsage, uses: StepUsage, contents: Contents
) -> dict[str, dict[str, Any]]:
    """Return the fields in which two steps differ; duration and cost are ignored."""
    changes = _changes(one, other, contents)
    found: dict[str, dict[str, Any]] = {
        name: changes[name] for name in ("input", "parameters", "tools") if name in changes
    }
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
    found |= {name: changes[name] for name in ("output", "finish_reason") if name in changes}
    if one.kind == "llm" and used.tokens != uses.tokens:
        found["tokens"] = {"a": used.tokens, "b": uses.tokens}
    return found


def _changes(one: RunStep, other: RunStep, contents: Contents) -> dict[str, dict[str, Any]]:
    """Return the differences of the contents; of the summaries in the tree if they were not read."""
    left, right = contents
    if left is not None and right is not None and left.kind == right.kind:
        return content_changes(left, right)
    found: dict[str, dict[str, Any]] = {}
    given, gives = _given(one), _given(other)
    if given.input_hash != gives.input_hash:
        found["input"] = _texts(given.input, gives.input)
    if one.ending.output_hash != other.ending.output_hash:
        found["output"] = _texts(one.ending.output, other.ending.output)
    return found


def _decisions(step: RunStep) -> list[tuple[tuple[Any, ...], EventRow]]:
    """Return the decisions of a step in order, each as comparison key and event."""
    rows = [row for row in step.events if row.event_type == DECISION]
    if step.ending.decision_type:
        rows.append(step.ending)
    return [
        (
            (
                row.decision_type,
                without_fresh(row.chosen),
                _output_key(row) if row.event_type == DECISION else "",
            ),
            row,
        )
        for row in rows
    ]


def _output_key(row: EventRow) -> Any:
    """Return the compared part of an output; a long one is compared whole, with its ids."""
    return without_fresh(row.output) if len(row.output) < MAX_TEXT else row.output_hash


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
    return filled(
        type=row.decision_type,
        chosen=row.chosen,
        reasoning=row.reasoning,
        confidence=row.confidence,
        output=row.output if row.event_type == DECISION else "",
    )


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
    used, uses = a.totals.get(id(pair.a), NOTHING), b.totals.get(id(pair.b), NOTHING)
    took = [milliseconds(each.duration_ns) if each else None for each in (pair.a, pair.b)]
    return {
        "change": difference.change,
        "what": difference.first_field,
        "depth": pair.depth,
        "kind": step.kind,
        "name": step.name,
        "agent": step.agent or None,
        "a": pair.a and pair.a.id,
        "b": pair.b and pair.b.id,
        "offset_ms": difference.offset_ms,
        "fields": difference.fields,
        "duration_ms": _delta(*took),
        "tokens": _delta(used.tokens, uses.tokens),
        "cost_usd": _delta(used.cost_usd, uses.cost_usd),
    }


def _delta(one: float | None, other: float | None) -> dict[str, float | None]:
    known = one is not None and other is not None
    return {"a": one, "b": other, "delta": other - one if known else None}  # type: ignore[operator]


def _about(analysis: Analysis) -> dict[str, Any]:
    head = head_of(analysis)
    return {name: head[name] for name in ("trace_id", "name", "time", "state", "session_id")}


def _model(step: RunStep) -> str:
    opening, span = step.opening or NO_EVENT, step.span
    return step.ending.llm_model or opening.llm_model or (span.model if span is not None else "")


def _given(step: RunStep) -> EventRow:
    """Return the event of a step that holds its input; an empty one if none does."""
    rows = (row for row in (step.opening, step.closing) if row is not None and row.input_hash)
    return next(rows, NO_EVENT)


def aligned(a: Sequence[RunStep], b: Sequence[RunStep]) -> list[Pair]:
    """Return pairs that cover all steps of both trees, parents before children, in run order."""
    found: list[Pair] = []
    waiting = [Pair(*pair, 0) for pair in reversed(_matched(a, b))]
    while waiting:
        pair = waiting.pop()
        found.append(pair)
        below = _matched(
            pair.a.children if pair.a is not None else (),
            pair.b.children if pair.b is not None else (),
        )
        waiting.extend(Pair(*each, pair.depth + 1) for each in reversed(below))
    return found


def _matched(
    a: Sequence[RunStep], b: Sequence[RunStep]
) -> list[tuple[RunStep | None, RunStep | None]]:
    """Match siblings; steps without a match keep their position."""
    partners: dict[int, RunStep] = {}
    of_a, of_b = _grouped(a), _grouped(b)
    for key, group in of_a.items():
        partners |= {id(one): other for one, other in _paired(group, of_b.get(key, []))}
    taken = {id(other) for other in partners.values()}
    rest = deque(step for step in b if id(step) not in taken)
    places = {id(step): place for place, step in enumerate(b)}
    merged: list[tuple[RunStep | None, RunStep | None]] = []
    for step in a:
        other = partners.get(id(step))
        if other is not None:
            while rest and places[id(rest[0])] < places[id(other)]:
                merged.append((None, rest.popleft()))
        merged.append((step, other))
    return [*merged, *((None, step) for step in rest)]


def _grouped(steps: Sequence[RunStep]) -> dict[Key, list[RunStep]]:
    """Group steps by what must be equal; another model in a call is a change of that call."""
    groups: dict[Key, list[RunStep]] = {}
    for step in steps:
        name = "" if step.kind == "llm" else step.name
        groups.setdefault((step.kind, step.agent, name), []).append(step)
    return groups


def _paired(a: list[RunStep], b: list[RunStep]) -> Iterator[tuple[RunStep, RunStep]]:
    if len(a) == len(b):
        yield from zip(a, b, strict=True)
        return
    left, right = a, b
    # The same call first, then the same input to another model, then the order.
    for key in (_call_key, _input_key):
        waiting: dict[Any, deque[RunStep]] = {}
        for step in right:
            waiting.setdefault(key(step), deque()).append(step)
        found = [
            (step, waiting[key(step)].popleft())
            for step in left
            if _given(step).input_hash and waiting.get(key(step))
        ]
        yield from found
        taken = {id(step) for pair in found for step in pair}
        left = [step for step in left if id(step) not in taken]
        right = [step for step in right if id(step) not in taken]
    yield from zip(left, right, strict=False)


def _call_key(step: RunStep) -> tuple[int, str]:
    return _input_key(step), step.name


def _input_key(step: RunStep) -> int:
    return _given(step).input_hash
