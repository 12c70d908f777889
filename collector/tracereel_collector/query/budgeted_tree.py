"""Trace of a run within a byte budget: the most important steps only.

Intended for readers with little context, such as a language model. Steps are ranked: roots, then
failed, crashed, running or cancelled steps, then attempts, then decisions, then the rest; within a rank
by time on the critical path. Each is shown with its ancestors and its number of hidden descendants,
which can be requested by its id. Beside the steps there is room for the content of the first ones.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.serialize import (
    shown_error,
    shown_failure,
    shown_path,
)
from tracereel_collector.query.run.steps import DECISION, RunStep
from tracereel_collector.query.run.summary import counts
from tracereel_collector.query.run.tree import walk

MIN_BYTES = 600
BYTES_PER_TOKEN = 3
"""Assumed bytes per token of JSON, slightly below the typical value."""
_SHORT = 160
"""Maximum length of a text, in characters."""
_LONGEST = 4_000
"""Maximum length of what went into a step or came out, in characters."""
_MAX_CONTENTS = 100
"""Steps whose content is read."""
_FOR_STEPS = 0.6
"""Share of the room for steps before their content."""

Said = Callable[[Sequence[RunStep]], list[tuple[str, str]]]
"""Returns what went into steps and what came out."""


class _Brief(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """Step in short form."""

    id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    offset_ms: float
    duration_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    decided: str = ""
    reasoning: str = ""
    input: str = ""
    """The last message or value that went in, maybe only its beginning."""
    output: str = ""
    error: str = ""
    hidden: int = 0
    """Number of descendants not shown; request them with `?step=ID`."""


def brief_of(analysis: Analysis, roots: Sequence[RunStep], *, budget: int, said: Said) -> bytes:
    """Return the run, or the part below some steps, in at most `budget` bytes."""
    steps = list(walk(roots))
    order = sorted(steps, key=_urgency(analysis))
    sizes = {
        id(step): len(msgspec.json.encode(_brief(analysis, step, 99_999))) + 1 for step in steps
    }
    for head in _heads(analysis, budget):
        room = budget - len(_encoded(analysis, head, [], len(steps), budget))
        if room >= 0:
            break
    chosen: set[int] = set()
    texts: dict[int, dict[str, str]] = {}
    for share in (_FOR_STEPS, 1):
        before, for_steps = set(chosen), round(room * share)
        room -= for_steps - _choose(order, sizes, chosen, for_steps)
        new = [step for step in order if id(step) in chosen - before][:_MAX_CONTENTS]
        found, room = _fitting(new, said(new), room)
        texts |= found
    shown = [step for step in steps if id(step) in chosen]
    hidden = _hidden(steps, chosen)
    listed = [
        msgspec.structs.replace(_brief(analysis, step, hidden[id(step)]), **texts.get(id(step), {}))
        for step in shown
    ]
    return _encoded(analysis, head, listed, len(steps) - len(shown), budget)


def _choose(order: Sequence[RunStep], sizes: dict[int, int], chosen: set[int], room: int) -> int:
    """Add the most urgent steps that fit, with their ancestors; return the room that is left."""
    least = min(sizes.values(), default=0)
    for step in order:
        if room < least:
            break
        if id(step) in chosen:
            continue
        wanted: list[RunStep] = []
        cost = 0
        each: RunStep | None = step
        while each is not None and id(each) in sizes and id(each) not in chosen and cost <= room:
            wanted.append(each)
            cost += sizes[id(each)]
            each = each.parent
        if cost <= room:
            room -= cost
            chosen |= {id(other) for other in wanted}
    return room


def _fitting(
    steps: Sequence[RunStep], said: Sequence[tuple[str, str]], room: int
) -> tuple[dict[int, dict[str, str]], int]:
    """Return the texts of steps, each cut to its share of the room, and the room that is left."""
    texts = [
        (text, id(step), name)
        for step, both in zip(steps, said, strict=True)
        for name, text in zip(("input", "output"), both, strict=True)
        if text
    ]
    # The first ones get a readable length; what short texts leave is for the long ones.
    texts = sorted(texts[: max(1, room // _SHORT)], key=lambda each: len(each[0]))
    found: dict[int, dict[str, str]] = {}
    for number, (text, step_id, name) in enumerate(texts):
        share = min(_LONGEST, max(_SHORT, room // (len(texts) - number)))
        shown = _cut(text, share)
        size = len(msgspec.json.encode({name: shown}))
        if size > share:  # escaped characters take more bytes; the name and the mark some
            shown = _cut(text, max(1, len(shown) * (share - 20) // size))
            size = len(msgspec.json.encode({name: shown}))
        if size <= room:
            found.setdefault(step_id, {})[name] = shown
            room -= size
    return found, room


def _encoded(
    analysis: Analysis, head: dict[str, Any], steps: list[_Brief], omitted: int, budget: int
) -> bytes:
    return msgspec.json.encode(
        {
            "trace_id": analysis.run.trace_id,
            "name": analysis.identity.name or None,
            "state": analysis.state,
            **head,
            "steps": steps,
            "omitted_steps": omitted,
            "budget_bytes": budget,
            "more": f"/v1/traces/{analysis.run.trace_id}?step=ID&budget_bytes={budget}",
        }
    )


def _heads(analysis: Analysis, budget: int) -> list[dict[str, Any]]:
    """Return candidates for the head, from longest to shortest; the last always fits."""
    run = analysis.run
    origin = run.began
    base = counts(analysis)
    figures = {
        "total_events": base["total_events"],
        "total_steps": len(run.steps),
        "duration_ms": base["duration_ms"],
        "errors": base["errors"],
        "retries": base["retries"],
        "fallbacks": base["fallbacks"],
        "tokens": analysis.usage.tokens,
        "cost_usd": analysis.usage.cost_usd,
        "wasted_ms": round(analysis.waste.time_ms, 3),
    }
    errors = {
        "first_error": _short_failure(shown_failure(analysis.first_error, origin=origin)),
        "fatal_error": _short_failure(shown_failure(analysis.last_error, origin=origin)),
    }
    path = {"critical_path": shown_path(analysis.path, origin=origin, most=5)}
    full = {"summary": {**figures, **errors, **path}}
    # Limit the full head to a third of the budget, to leave room for steps.
    fitting = [full] if len(msgspec.json.encode(full)) * 3 <= budget else []
    return [*fitting, {"summary": {**figures, **errors}}, {"summary": figures}, {}]


def _short_failure(failure: dict[str, Any] | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    kept = {
        name: _cut(value) if isinstance(value, str) else value
        for name, value in failure.items()
        if name in ("step", "agent", "type", "message", "handled")
    }
    if failure.get("cause"):
        kept["cause"] = _short_failure(failure["cause"])
    return kept


def _urgency(analysis: Analysis) -> Any:
    """Return a sort key: roots, unsuccessful or running, attempts, decisions, rest; then critical time."""
    tried = {id(link.step) for chain in analysis.chains for link in chain.links if link.step}
    tried |= {id(chain.operation) for chain in analysis.chains}
    held: dict[int, int] = {}
    for segment in analysis.path:
        if segment.step is not None:
            length = segment.end - segment.start
            held[id(segment.step)] = held.get(id(segment.step), 0) + length

    def key(step: RunStep) -> tuple[int, int, int]:
        if step.parent is None:
            rank = 0
        elif step.status in ("failed", "crashed", "running", "cancelled"):
            rank = 1
        elif id(step) in tried:
            rank = 2
        elif any(row.event_type == DECISION for row in step.events):
            rank = 3
        else:
            rank = 4
        return (rank, -held.get(id(step), 0), step.position)

    return key


def _hidden(steps: Sequence[RunStep], chosen: set[int]) -> dict[int, int]:
    """Return the number of hidden descendants of each step; parents precede their children."""
    hidden: dict[int, int] = {}
    for step in reversed(steps):
        hidden[id(step)] = sum(
            hidden[id(child)] + (id(child) not in chosen) for child in step.children
        )
    return hidden


def _brief(analysis: Analysis, step: RunStep, hidden: int) -> _Brief:
    usage = analysis.totals[id(step)]
    decided = [row for row in step.events if row.event_type == DECISION]
    row = decided[-1] if decided else step.closing
    error = shown_error(step) if step.status != "success" else None
    return _Brief(
        id=step.id,
        parent_id=step.parent.id if step.parent is not None else None,
        kind=step.kind,
        name=_cut(step.name),
        status=step.status,
        offset_ms=round((step.began - analysis.run.began) / 1e6, 3),
        duration_ms=None if step.duration_ns is None else round(step.duration_ns / 1e6, 3),
        tokens=usage.tokens,
        cost_usd=usage.cost_usd,
        decided=_cut(" ".join(filter(None, [row.decision_type, row.chosen]))) if row else "",
        reasoning=_cut(row.reasoning) if row is not None else "",
        error=_cut(": ".join(filter(None, [error.get("type"), error.get("message")])))
        if error
        else "",
        hidden=hidden,
    )


def _cut(text: str, most: int = _SHORT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
