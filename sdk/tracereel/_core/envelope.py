"""Adds the envelope to events, shows them on the span and passes them to the recorder."""

import time
from typing import TYPE_CHECKING, Any

from tracereel import semconv
from tracereel._core import listeners
from tracereel._core import recorder as _recorder
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Emitted
from tracereel._redact.event_redaction import Privacy, strip_content
from tracereel._runtime import guard
from tracereel._runtime.clock import rfc3339

if TYPE_CHECKING:
    from tracereel._core.context import Execution


def record_all(
    events: list[dict[str, Any]],
    execution: "Execution",
    recorder: Recorder,
    now_ns: int,
    *,
    closes_run: bool | None = False,
    seconds: float | None = None,
    copied_by: Privacy | None = None,
) -> tuple[dict[str, Any], bool]:
    """Redact events of one moment, add the envelope fields and record them in this order.

    Content that `copied_by` has redacted while copying it is not redacted again.

    The spool adds the sequence numbers, and the event count if the last event closes its run. With
    `closes_run=None` a closed run stays closed and gets a new count. Return the last event, and
    whether it is in the spool.
    """
    if recorder.closed:
        # Reconfigured during the call: the events go to the new recorder.
        recorder = _recorder.active() or recorder
    trace = execution.trace
    try:
        for event in events:
            # A generated request id needs no redaction; others are redacted like every field.
            recorder.privacy.clean(event, trace.request_id, copied_by)
    except Exception as error:  # noqa: BLE001
        # Content that could not be redacted must not be sent.
        for event in events:
            strip_content(event)
        guard.report("redaction", error)
    whole = [_whole(event, execution, recorder, now_ns) for event in events]
    is_spooled = recorder.record_all(
        whole, trace, closes_run=closes_run, seconds=seconds, module=execution.module
    )
    if execution.listeners:
        for event in whole:
            listeners.notify(execution.listeners, event)
    return whole[-1], is_spooled


def record_tape(event: dict[str, Any], execution: "Execution", recorder: Recorder) -> None:
    """Record a tape part, which is already redacted, without metrics and log line."""
    if recorder.closed:
        recorder = _recorder.active() or recorder
    # Parts may be written after the run: they do not change whether it is open or closed.
    whole = _whole(event, execution, recorder, time.time_ns())
    recorder.keep([whole], execution.trace, closes_run=None)


def _whole(
    event: dict[str, Any], execution: "Execution", recorder: Recorder, now_ns: int
) -> dict[str, Any]:
    state = execution.state
    hlc = recorder.clock.tick()
    whole = {
        # The clock never repeats a value in a process, and the mark is unique to the process.
        "event_id": f"evt_{hlc}{recorder.mark}",
        "event_type": event["event_type"],
        "event_version": semconv.EVENT_VERSION,
        "timestamp": rfc3339(now_ns),
        "trace_id": execution.trace.trace_id,
        "otel_trace_id": execution.otel_trace_id,
        "span_id": execution.span_id,
        "parent_span_id": execution.parent_span_id,
        "service": recorder.config.service,
        "execution_id": state.execution_id,
        "event_index": next(state.indexes),
        "hlc": hlc,
    }
    if recorder.privacy.acts:
        recorder.privacy.act(whole)
    if execution.session_id is not None:
        whole["session_id"] = recorder.owner("session_id", execution.session_id)
    if execution.user_id is not None:
        whole["user_id"] = recorder.owner("user_id", execution.user_id)
    whole.update(event)
    return whole


def emit(execution: "Execution", event: dict[str, Any], *, stored_within: float = 0) -> Emitted:
    """Record an event of a running execution and show it on its span.

    With `stored_within` seconds, wait until the collector has stored it.
    """
    recorder = _recorder.active()
    if recorder is None:
        return "dropped"
    span, shown = execution.span, semconv.SPAN_EVENTS.get(event["event_type"])
    if shown is not None:
        with guard.Guard("span"):
            if span.is_recording():
                name, fields = shown
                found = ((attribute, event.get(field)) for field, attribute in fields.items())
                span.add_event(name, {key: value for key, value in found if value is not None})
    closes: bool | None = None
    if execution.trace.over:
        # A task that outlives the run, unless an enclosing call will still end and close it.
        closes = not execution.continues()
        if closes:
            recorder.reopen(execution.trace)
    whole, is_spooled = record_all([event], execution, recorder, time.time_ns(), closes_run=closes)
    return recorder.whereabouts(whole, is_spooled=is_spooled, stored_within=stored_within)
