"""JSON form of steps, chains and errors."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tracereel._runtime.clock import rfc3339
from tracereel_collector.query.jaeger.values import TEXT as STRING
from tracereel_collector.query.jaeger.values import plain_value
from tracereel_collector.query.run.analysis import (
    Analysis,
    Segment,
    StepFailure,
    StepUsage,
    cause_of,
    was_handled,
)
from tracereel_collector.query.run.chains import ChainLink
from tracereel_collector.query.run.events import TEXT, EventRow
from tracereel_collector.query.run.outcomes import Outcomes
from tracereel_collector.query.run.rows import SpanEventRow, SpanRow
from tracereel_collector.query.run.steps import DECISION, MILLI, RunStep

MAX_DECISIONS = 100
"""Maximum decisions shown of one step; `decision_count` counts all."""
MAX_SPAN_EVENTS = 100
"""Maximum span events shown of one step; `event_count` counts all."""
MAX_CHAINS = 200
"""Maximum chains shown; the summary counts all retries and fallbacks."""
_FINE = frozenset({"success", "running"})
_NO_SPAN = SpanRow(0, "", "", "")
_LAST = 253_402_300_799 * 10**9
"""End of the year 9999."""


class ShownStep(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """Step in JSON form; unknown fields are left out."""

    depth: int
    id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    time: str
    offset_ms: float | None
    duration_ms: float | None = None
    reported_duration_ms: int | None = None
    agent: str = ""
    service: str = ""
    attempt: int | None = None
    model: str = ""
    provider: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    confidence: float | None = None
    input: str = ""
    output: str = ""
    decision: str = ""
    reasoning: str = ""
    outcome: str = ""
    error: dict[str, str] | None = None
    retry_successful: bool | None = None
    fallback_successful: bool | None = None
    decisions: list[dict[str, Any]] | None = None
    decision_count: int = 0
    span_events: list[dict[str, Any]] | None = None
    event_count: int = 0
    trace_id: str
    execution_id: str = ""
    source: str
    clock_shift_ms: float | None = None
    missing_parent_id: str | None = None
    children: int
    """Number of direct children."""


def moment(unix_nano: int) -> str:
    """Return a UTC time with microseconds, clamped to the years 1970 to 9999."""
    if not 0 <= unix_nano <= _LAST:
        unix_nano = max(0, min(unix_nano, _LAST))
    return rfc3339(unix_nano)


def milliseconds(nanoseconds: int | None) -> float | None:
    """Return nanoseconds as milliseconds."""
    return None if nanoseconds is None else nanoseconds / MILLI


def shown_step(
    step: RunStep, *, depth: int, origin: int, usage: StepUsage, outcomes: Outcomes
) -> ShownStep:
    """Return one step without its children."""
    ending, span, parent = step.ending, step.span or _NO_SPAN, step.parent
    opening = step.opening or ending
    is_below = parent is not None and parent.id == step.parent_id
    # A single event is the closing event of the step.
    events = step.events if len(step.events) > 1 else ()
    decisions = [each for each in events if each.event_type == DECISION]
    decided = outcomes.get(id(step.closing), {})
    began, duration = step.start + step.shift, step.duration_ns
    # Keyword arguments in field order are faster.
    return ShownStep(
        depth=depth,
        id=step.id,
        parent_id=None if parent is None else parent.id,
        kind=step.kind,
        name=step.name,
        status=step.status,
        time=moment(began),
        offset_ms=(began - origin) / MILLI,
        duration_ms=None if duration is None else duration / MILLI,
        reported_duration_ms=step.reported_ms,
        agent=step.agent,
        service=step.service,
        attempt=ending.attempt,
        model=ending.llm_model or opening.llm_model or span.model,
        provider=ending.llm_provider or opening.llm_provider or span.provider,
        tokens=usage.tokens,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        confidence=ending.confidence,
        input=opening.input or ending.input,
        output=ending.output,
        decision=ending.decision_type,
        reasoning=ending.reasoning,
        outcome=ending.final_outcome,
        error=shown_error(step) if step.status not in _FINE else None,
        retry_successful=decided.get("retry_successful", ending.retry_successful),
        fallback_successful=decided.get("fallback_successful", ending.fallback_successful),
        decisions=[shown_decision(each) for each in decisions[:MAX_DECISIONS]] or None,
        decision_count=len(decisions),
        span_events=[
            shown_span_event(each.row, offset=each.row.time + step.shift - origin)
            for each in step.span_events[:MAX_SPAN_EVENTS]
        ]
        or None,
        event_count=len(step.events) + len(step.span_events),
        trace_id=step.trace_id,
        execution_id=step.execution_id,
        source=step.source,
        clock_shift_ms=step.shift / MILLI if step.shift else None,
        missing_parent_id=None if is_below else step.parent_id or None,
        children=len(step.children),
    )


def filled(**fields: Any) -> dict[str, Any]:
    """Return the fields that are neither `None` nor empty text."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def shown_decision(row: EventRow) -> dict[str, Any]:
    """Return a decision with its reasoning."""
    return filled(
        event_id=row.event_id,
        type=row.decision_type,
        category=row.decision_category,
        chosen=row.chosen,
        reasoning=row.reasoning,
        confidence=row.confidence,
        threshold=row.threshold,
        input=row.input,
        output=row.output,
        time=row.time,
    )


def shown_span_event(row: SpanEventRow, *, offset: int) -> dict[str, Any]:
    """Return an event of a span, long values cut."""
    return {
        "name": row.name[:TEXT],
        "time": moment(row.time),
        "offset_ms": milliseconds(offset),
        "attributes": {
            name: value[:TEXT] if isinstance(value, str) else value
            for name, value in attributes_of(row).items()
        },
    }


def attributes_of(row: SpanEventRow) -> dict[str, Any]:
    """Return the attributes of a span event with their types."""
    return {
        name: plain_value(text, row.types.get(name, STRING))
        for name, text in row.attributes.items()
    }


def shown_error(step: RunStep) -> dict[str, str] | None:
    """Return the error of a step, or `None`."""
    row, span = step.closing, step.span
    if row is not None and (row.error_type or (row.error_message and step.is_failed)):
        return filled(
            type=row.error_type,
            message=row.error_message,
            code=row.error_code,
            category=row.error_category,
            stage=row.stage,
        )
    if row is None and span is not None and step.is_failed:
        return filled(type=span.error_type, message=span.status_message)
    if step.status == "crashed":
        return {"type": "crashed", "message": "its emitter is gone"}
    return None


def shown_failure(failure: StepFailure | None, *, origin: int) -> dict[str, Any] | None:
    """Return an error of the run with its cause."""
    if failure is None:
        return None
    cause = cause_of(failure)
    shown = _failure(failure, origin)
    shown["handled"] = was_handled(failure)
    shown["cause"] = None if cause.step is failure.step else _failure(cause, origin)
    return shown


def _failure(failure: StepFailure, origin: int) -> dict[str, Any]:
    step = failure.step
    return {"step": step.id, "kind": step.kind, "name": step.name} | filled(
        agent=step.agent,
        type=failure.error_type,
        message=failure.message,
        code=failure.code,
        category=failure.category,
        stage=failure.stage,
        offset_ms=milliseconds(failure.at - origin),
    )


def shown_chains(analysis: Analysis) -> list[dict[str, Any]]:
    """Return operations with all their attempts."""
    return [
        {
            "operation": chain.operation.id,
            "agent": chain.operation.agent,
            "name": chain.operation.name,
            "offset_ms": milliseconds(chain.began - analysis.run.began),
            "outcome": chain.outcome,
            "attempts": sum(link.what == "attempt" for link in chain.links),
            "fallbacks": sum(link.what == "fallback" for link in chain.links),
            "links": [_link(link) for link in chain.links],
        }
        for chain in analysis.chains[:MAX_CHAINS]
    ]


def _link(link: ChainLink) -> dict[str, Any]:
    step = link.step
    return filled(
        what=link.what,
        number=link.number,
        step=step.id if step is not None else None,
        agent=link.agent,
        status=link.status,
        error=link.error,
        reason=link.reason,
        duration_ms=milliseconds(step.duration_ns) if step is not None else None,
        waited_ms=link.waited_ms,
        confidence=link.confidence,
        quality_delta=link.quality_delta,
    )


def shown_path(path: Sequence[Segment], *, origin: int, most: int) -> list[dict[str, Any]]:
    """Return the critical path, limited to its `most` longest segments, in order."""
    kept = {id(each) for each in sorted(path, key=lambda each: each.start - each.end)[:most]}
    return [
        {
            "step": segment.step and segment.step.id,
            "kind": segment.step.kind if segment.step is not None else "between",
            "name": segment.step and segment.step.name,
            "offset_ms": milliseconds(segment.start - origin),
            "duration_ms": milliseconds(segment.end - segment.start),
        }
        for segment in path
        if id(segment) in kept
    ]
