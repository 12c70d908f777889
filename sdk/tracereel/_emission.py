"""The way of an event out of an execution: the envelope around it, its mark on the span, the recorder."""

import time
from typing import Any

from tracereel import _guard, _recorder, semconv
from tracereel._clock import rfc3339
from tracereel._context import Execution
from tracereel._recorder import Recorder


def record(
    event: dict[str, Any],
    execution: Execution,
    recorder: Recorder,
    now_ns: int,
    *,
    closes_run: bool | None = False,
    seconds: float | None = None,
) -> None:
    """Clean the fields of an event, put around them what every event carries, and record it.

    The spool adds the numbers, and, if the event closes its run, their count; null leaves a run that is
    closed so, with this event as the last.
    """
    # A request id that we made is known to be harmless; others are looked at like everything else.
    recorder.clean([event], execution.trace.request_id)
    whole = _whole(event, execution, recorder, now_ns)
    recorder.record(whole, execution.trace, closes_run=closes_run, seconds=seconds)


def record_all(
    events: list[dict[str, Any]],
    execution: Execution,
    recorder: Recorder,
    now_ns: int,
    *,
    closes_run: bool | None = False,
    seconds: float | None = None,
) -> None:
    """Record what happened at one moment of an execution: one look, one write, in this order."""
    recorder.clean(events, execution.trace.request_id)
    whole = [_whole(event, execution, recorder, now_ns) for event in events]
    recorder.record_all(whole, execution.trace, closes_run=closes_run, seconds=seconds)


def record_tape(event: dict[str, Any], execution: Execution, recorder: Recorder) -> None:
    """Write a part of a tape down, clean already: no metric, no log line."""
    if recorder.closed:
        recorder = _recorder.active() or recorder
    # Parts are written a moment later, also after the run: they leave it as open or closed as it is.
    whole = _whole(event, execution, recorder, time.time_ns())
    recorder.keep(whole, execution.trace, closes_run=None)


def _whole(
    event: dict[str, Any], execution: Execution, recorder: Recorder, now_ns: int
) -> dict[str, Any]:
    state, trace = execution.state, execution.trace
    hlc = recorder.clock.tick()
    whole = {
        # The clock gives no value twice in a process, and the mark is the process's own.
        "event_id": f"evt_{hlc}{recorder.mark}",
        "event_type": event["event_type"],
        "event_version": semconv.EVENT_VERSION,
        "timestamp": rfc3339(now_ns),
        "trace_id": trace.trace_id,
        "otel_trace_id": execution.otel_trace_id,
        "span_id": execution.span_id,
        "parent_span_id": execution.parent_span_id,
        "service": recorder.config.service,
        "execution_id": state.execution_id,
        "event_index": next(state.indexes),
        "hlc": hlc,
    }
    if recorder.acts:
        recorder.act(whole)
    if execution.session_id is not None:
        whole["session_id"] = recorder.owner("session_id", execution.session_id)
    if execution.user_id is not None:
        whole["user_id"] = recorder.owner("user_id", execution.user_id)
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
    closes: bool | None = None
    if execution.trace.over:
        # In a task that outlives the run, unless a call around it has an end still to tell.
        closes = not execution.goes_on()
        if closes:
            recorder.reopen(execution.trace)
    record(event, execution, recorder, time.time_ns(), closes_run=closes)


def _show(span: Any, shown: tuple[str, dict[str, str]], event: dict[str, Any]) -> None:
    if span.is_recording():
        name, fields = shown
        found = ((attribute, event.get(field)) for field, attribute in fields.items())
        span.add_event(name, attributes={key: value for key, value in found if value is not None})
