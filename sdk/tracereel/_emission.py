"""The way of an event out of an execution: the envelope around it, its mark on the span, the recorder."""

import time
from typing import Any

from tracereel import _guard, _recorder, semconv
from tracereel._clock import rfc3339, sortable_id
from tracereel._context import Execution
from tracereel._recorder import Recorder


def envelope(
    event: dict[str, Any], execution: Execution, recorder: Recorder, now_ns: int
) -> dict[str, Any]:
    """An event with what every event carries; the spool adds the numbers."""
    state = execution.state
    whole = {
        "event_id": sortable_id("evt"),
        "event_type": event.pop("event_type"),
        "event_version": semconv.EVENT_VERSION,
        "timestamp": rfc3339(now_ns),
        "trace_id": execution.trace.trace_id,
        "otel_trace_id": execution.otel_trace_id,
        "span_id": execution.span_id,
        "parent_span_id": execution.parent_span_id,
        "service": recorder.config.service,
        "execution_id": state.execution_id,
        "event_index": next(state.indexes),
    }
    if execution.session_id is not None:
        whole["session_id"] = execution.session_id
    if execution.user_id is not None:
        whole["user_id"] = execution.user_id
    whole.update(event)
    return whole


def emit(execution: Execution, event: dict[str, Any]) -> None:
    """Record an event of an execution that is still running, and show it on its span."""
    recorder = _recorder.active()
    if recorder is None:
        return
    shown = semconv.SPAN_EVENTS.get(event["event_type"])
    if shown is not None:
        with _guard.Guard("span"):
            _show(execution.span, shown, event)
    recorder.record(envelope(event, execution, recorder, time.time_ns()), execution.trace)


def _show(span: Any, shown: tuple[str, dict[str, str]], event: dict[str, Any]) -> None:
    if span.is_recording():
        name, fields = shown
        found = ((attribute, event.get(field)) for field, attribute in fields.items())
        span.add_event(name, attributes={key: value for key, value in found if value is not None})
