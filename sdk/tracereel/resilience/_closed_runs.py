"""Runs whose outermost call has just ended, for a loop of somebody else's that tries them again.

Such a loop has no place of its own around the attempts. Its hook is called when the run of the failed
attempt is closed and nothing is current any more; the exception, or for a result that is refused the
context, says which run it was.
"""

import itertools
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags

from tracereel import _emission, _failures
from tracereel._context import Execution, Kind
from tracereel._recorder import Recorder
from tracereel._run import Ended, Trace, lock

MAX_REMEMBERED: Final = 1024
"""Failed runs that are remembered; a hook asks at once, so that the latest are enough."""

watching = False
"""Whether there are hooks at all; without them nothing is remembered and no exception marked."""


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """What is needed to go on with a run; nothing of what its code worked with."""

    kind: Kind
    name: str
    trace: Trace
    execution_id: str
    indexes: "itertools.count[int]"
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    flags: TraceFlags
    request_id: str
    session_id: str | None
    user_id: str | None
    ended: Ended
    """The execution that closed it, as its repetition speaks of it."""
    at: float
    """When, by the monotonic clock."""

    def around(self, context: Context | None) -> Context | None:
        """The context for the span of the next attempt; null where another span is around it.

        OpenTelemetry has no other way into a trace than below one of its spans.
        """
        if otel.get_current_span(context).get_span_context().is_valid:
            return None
        ids = int(self.otel_trace_id, 16), int(self.span_id, 16)
        before = SpanContext(*ids, is_remote=False, trace_flags=self.flags)
        return otel.set_span_in_context(NonRecordingSpan(before), context)

    def last_execution(self) -> Execution:
        """A stand-in for the execution that closed the run: events may still be added to it."""
        execution = Execution(
            kind=self.kind,
            name=self.name,
            trace=self.trace,
            execution_id=self.execution_id,
            span=INVALID_SPAN,  # its own has ended
            otel_trace_id=self.otel_trace_id,
            span_id=self.span_id,
            parent_span_id=self.parent_span_id,
            parent=None,
            tally=None,
            emitter=_emission.emit,
            request_id=self.request_id,
            session_id=self.session_id,
            user_id=self.user_id,
        )
        execution.state.indexes = self.indexes
        return execution

    def add(self, event: dict[str, Any], recorder: Recorder) -> None:
        """Record one more event: the last of the run until another attempt goes on with it."""
        recorder.reopen(self.trace)
        now_ns = time.time_ns()
        _emission.record(event, self.last_execution(), recorder, now_ns, closes_run=True)


_failed: Final[dict[str, ClosedRun]] = {}
"""By the id of the execution, which is what the exception carries; the oldest first."""
_returned: ContextVar[ClosedRun | None] = ContextVar("tracereel_returned", default=None)


def remember(execution: Execution, status: str, error: BaseException | None) -> None:
    """Called when the outermost call of a run has ended, with what it raised."""
    run = ClosedRun(
        kind=execution.kind,
        name=execution.name,
        trace=execution.trace,
        execution_id=execution.execution_id,
        indexes=execution.state.indexes,
        otel_trace_id=execution.otel_trace_id,
        span_id=execution.span_id,
        parent_span_id=execution.parent_span_id,
        flags=execution.span.get_span_context().trace_flags,
        request_id=execution.request_id,
        session_id=execution.session_id,
        user_id=execution.user_id,
        ended=Ended(
            execution.name,
            execution.execution_id,
            status,
            retry_count=execution.retry_count,
            earlier=execution.earlier,
        ),
        at=time.monotonic(),
    )
    if error is None:
        _returned.set(run)
        return
    _failures.mark_run(error, run.execution_id)
    with lock:
        _failed[run.execution_id] = run
        if len(_failed) > MAX_REMEMBERED:
            del _failed[next(iter(_failed))]


def behind(error: BaseException | None, since: float) -> ClosedRun | None:
    """The run that an attempt was which has raised this, or returned a result; each is told once.

    Args:
        since: when the loop began, by the monotonic clock. What ended before is none of its attempts:
            an exception object may be raised anywhere again.
    """
    if error is None:
        run = _returned.get()
        _returned.set(None)
    else:
        ids = _failures.take_runs(error)
        with lock:
            run = next((found for each in ids if (found := _failed.pop(each, None))), None)
    return run if run is not None and run.at >= since else None
