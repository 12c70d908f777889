"""Decisions: what an agent chose and why, as an event, a span event and a log line."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tracereel import _context, _guard, _recorder, _scope, _spans, _values, semconv
from tracereel._clock import sortable_id
from tracereel._context import Execution
from tracereel._recorder import Recorder


def record_decision(
    decision_type: str,
    *,
    category: str | None = None,
    reasoning: str | None = None,
    confidence: float | None = None,
    input_data: Mapping[str, Any] | None = None,
    output_data: Mapping[str, Any] | None = None,
    duration_ms: int | None = None,
    was_cached: bool = False,
    cache_hit_key: str | None = None,
    candidates: Sequence[Any] | None = None,
    chosen: Any = None,
) -> str:
    """Write a decision of the current agent down; gives its id.

    Inside a pipeline but outside its agents, the pipeline is named as the one that decided. Outside
    both there is no trace it could belong to: it is dropped and counted, nothing is raised.
    """
    decision_id = sortable_id("dec")
    with _guard.Guard("decision"):
        recorder = _recorder.active()
        if recorder is None:
            return decision_id
        execution = _context.current_execution()
        if execution is None:
            recorder.drop("no_execution")
            _guard.log.debug("tracereel: a decision outside of any traced agent was dropped")
            return decision_id
        captures = recorder.config.capture_content
        event = {
            "event_type": semconv.DECISION_RECORDED,
            "agent_name": execution.name,
            "decision_id": decision_id,
            "decision_type": _values.label(decision_type) or _values.type_name(decision_type),
            "decision_category": _values.label(category),
            "reasoning": _values.label(reasoning, _values.TEXT_LIMIT) if captures else None,
            "confidence": _values.ratio(confidence),
            "input_data": _values.plain_dict(input_data) if captures else None,
            "output_data": _values.plain_dict(output_data) if captures else None,
            "decision_duration_ms": _duration(duration_ms),
            "was_cached": was_cached is True,
            "cache_hit_key": _values.label(cache_hit_key),
            "candidates": _list(candidates) if captures else None,
            "chosen": _values.plain(chosen) if captures else None,
        }
        _emit(recorder, execution, event)
    return decision_id


def _emit(recorder: Recorder, execution: Execution, event: dict[str, Any]) -> None:
    with _guard.Guard("span"):
        _spans.add_decision(execution.span, event)
    recorder.record(_scope.envelope(event, execution, recorder, time.time_ns()), execution.trace)


def _duration(value: object) -> int | None:
    """Milliseconds as a whole number; callers often measure them as a float."""
    number = _values.real(value)
    return None if number is None else _values.count(round(number))


def _list(value: object) -> list[Any] | None:
    if value is None:
        return None
    data = _values.plain(value)
    return data if isinstance(data, list) else [data]
