"""JSON form of steps, chains and errors."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tracereel._runtime.clock import rfc3339
from tracereel_collector.query.run.chains import Chain, ChainLink
from tracereel_collector.query.run.errors import StepFailure, cause_of, was_handled
from tracereel_collector.query.run.path import Segment
from tracereel_collector.query.run.rows import EventRow, SpanRow
from tracereel_collector.query.run.steps import DECISION, MILLI, RunStep
from tracereel_collector.query.run.usage import StepUsage

MAX_DECISIONS = 100
"""Maximum decisions shown of one step; `decision_count` counts all."""
_FINE = frozenset({"success", "running"})
_NO_EVENT = EventRow()
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
    decisions: list[dict[str, Any]] | None = None
    decision_count: int = 0
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


def shown_step(step: RunStep, *, depth: int, origin: int, usage: StepUsage) -> ShownStep:
    """Return one step without its children."""
    said, span = step.closing or _NO_EVENT, step.span or _NO_SPAN
    opening, parent = step.opening, step.parent
    # A single event is the closing event of the step.
    events = step.events if len(step.events) > 1 else ()
    decisions = [each for each in events if each.event_type == DECISION]
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
        attempt=said.attempt,
        model=said.llm_model or (opening.llm_model if opening is not None else "") or span.model,
        provider=said.llm_provider
        or (opening.llm_provider if opening is not None else "")
        or span.provider,
        tokens=usage.tokens,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        confidence=said.confidence,
        input=(opening.input if opening is not None else "") or said.input,
        output=said.output,
        decision=said.decision_type,
        reasoning=said.reasoning,
        outcome=said.final_outcome,
        error=shown_error(step) if step.status not in _FINE else None,
        decisions=[shown_decision(each) for each in decisions[:MAX_DECISIONS]] or None,
        decision_count=len(decisions),
        event_count=len(step.events),
        trace_id=step.trace_id,
        execution_id=step.execution_id,
        source=step.source,
        clock_shift_ms=step.shift / MILLI if step.shift else None,
        missing_parent_id=_missing_parent(step) if step.parent_id else None,
        children=len(step.children),
    )


def shown_decision(row: EventRow) -> dict[str, Any]:
    """Return a decision with its reasoning."""
    shown = {
        "event_id": row.event_id,
        "type": row.decision_type,
        "chosen": row.chosen,
        "reasoning": row.reasoning,
        "confidence": row.confidence,
        "input": row.input,
        "output": row.output,
        "time": row.time,
    }
    return {name: value for name, value in shown.items() if value is not None and value != ""}


def shown_error(step: RunStep) -> dict[str, str] | None:
    """Return the error of a step, or `None`."""
    row, span = step.closing, step.span
    if row is not None and (row.error_type or (row.error_message and step.is_failed)):
        shown = {
            "type": row.error_type,
            "message": row.error_message,
            "code": row.error_code,
            "category": row.error_category,
            "stage": row.stage,
        }
    elif row is None and span is not None and step.is_failed:
        shown = {"type": span.error_type, "message": span.status_message}
    elif step.status == "crashed":
        shown = {"type": "crashed", "message": "its emitter is gone"}
    else:
        return None
    return {name: value for name, value in shown.items() if value}


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
    shown = {
        "step": failure.step.id,
        "kind": failure.step.kind,
        "name": failure.step.name,
        "agent": failure.step.agent or None,
        "type": failure.error_type or None,
        "message": failure.message or None,
        "code": failure.code or None,
        "category": failure.category or None,
        "stage": failure.stage or None,
        "offset_ms": milliseconds(failure.at - origin),
    }
    return {name: value for name, value in shown.items() if value is not None}


def shown_chain(chain: Chain, *, origin: int) -> dict[str, Any]:
    """Return an operation with all its attempts."""
    operation = chain.operation
    return {
        "operation": operation.id,
        "agent": operation.agent,
        "name": operation.name,
        "offset_ms": milliseconds(chain.began - origin),
        "outcome": chain.outcome,
        "attempts": sum(link.what == "attempt" for link in chain.links),
        "fallbacks": sum(link.what == "fallback" for link in chain.links),
        "links": [shown_link(link) for link in chain.links],
    }


def shown_link(link: ChainLink) -> dict[str, Any]:
    """Return one attempt or fallback."""
    step = link.step
    shown = {
        "what": link.what,
        "number": link.number,
        "step": step.id if step is not None else None,
        "agent": link.agent,
        "status": link.status,
        "error": link.error,
        "reason": link.reason,
        "duration_ms": milliseconds(step.duration_ns) if step is not None else None,
        "waited_ms": link.waited_ms,
        "confidence": link.confidence,
        "quality_delta": link.quality_delta,
    }
    return {name: value for name, value in shown.items() if value is not None and value != ""}


def shown_path(path: Sequence[Segment], *, origin: int, most: int) -> list[dict[str, Any]]:
    """Return the critical path, limited to its `most` longest segments, in order."""
    kept = {id(each) for each in sorted(path, key=lambda each: each.start - each.end)[:most]}
    return [
        {
            "step": segment.step.id if segment.step is not None else None,
            "kind": segment.step.kind if segment.step is not None else "between",
            "name": segment.step.name if segment.step is not None else None,
            "offset_ms": milliseconds(segment.start - origin),
            "duration_ms": milliseconds(segment.end - segment.start),
        }
        for segment in path
        if id(segment) in kept
    ]


def _missing_parent(step: RunStep) -> str | None:
    if not step.parent_id or (step.parent is not None and step.parent.id == step.parent_id):
        return None
    return step.parent_id
