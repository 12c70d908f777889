"""Model calls of a run among its steps, each once: the definition is that of `store/calls.py`."""

from collections.abc import Sequence

from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.rows import SpanRow
from tracereel_collector.query.run.steps import RunStep
from tracereel_collector.store.calls import CallSpan, calls_of
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.rollups import OWN_SCOPE

Repeated = frozenset[int]
"""Steps whose call, or its failure, another step also describes, by `id(step)`."""


def repeated_calls(steps: Sequence[RunStep]) -> Repeated:
    """Return the model calls that are not counted, and what failed inside of failed ones."""
    if not any(step.kind in DIRECT_KINDS for step in steps):
        return frozenset()
    keys: dict[int, str] = {}
    taken: dict[str, int] = {}
    for step in steps:
        number = taken[step.id] = taken.get(step.id, -1) + 1
        keys[id(step)] = f"{step.id}~{number}" if number else step.id
    # Calls, and what failed in one, depend on what is above them alone: a fraction of a long run.
    looked_at: dict[int, RunStep] = {}
    for step in steps:
        is_asked = step.kind in DIRECT_KINDS or step.is_failed
        above: RunStep | None = step if is_asked else None
        while above is not None and id(above) not in looked_at:
            looked_at[id(above)] = above
            above = above.parent
    repeats = calls_of(_call(step, keys) for step in looked_at.values()).repeats
    return frozenset(step for step in looked_at if keys[step] in repeats)


def _call(step: RunStep, keys: dict[int, str]) -> CallSpan:
    row = step.closing or step.span
    event = step.closing
    is_own = step.source != "otlp"
    return CallSpan(
        key=keys[id(step)],
        parent=None if step.parent is None else keys[id(step.parent)],
        trace=event.otel_trace_id if event is not None else step.trace_id,
        kind=step.kind,
        scope=OWN_SCOPE if is_own or step.span is None else step.span.scope,
        is_own=is_own,
        began=step.start,
        ended=step.start if step.end is None else step.end,
        models=_models(step),
        prompt=None if row is None else row.prompt_tokens,
        completion=None if row is None else row.completion_tokens,
        tokens=None if row is None else _tokens(row),
        has_cost=row is not None and row.cost_usd is not None,
        is_failed=step.is_failed,
        response_id="" if row is None else row.response_id,
        agent=step.agent,
    )


def _tokens(row: EventRow | SpanRow) -> int | None:
    if row.tokens is not None or row.prompt_tokens is None or row.completion_tokens is None:
        return row.tokens
    return row.prompt_tokens + row.completion_tokens


def _models(step: RunStep) -> tuple[str, ...]:
    if step.closing is not None:
        names = step.closing.model_requested, step.closing.llm_model
    elif step.span is not None:
        names = step.span.model_requested, step.span.model
    else:
        return ()
    return tuple(filter(None, names))
