"""Recently closed runs, for third-party retry loops that continue them.

Such a loop is not traced itself. Its hook runs after the run of the failed attempt was closed, when
no execution is current. The exception identifies the run, or the context if a result was rejected.
"""

import itertools
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags

from tracereel._core import envelope, error_details
from tracereel._core.context import Execution, Kind
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Ended, lock
from tracereel._export.trace_state import TraceState

MAX_REMEMBERED: Final = 1024
"""Maximum number of failed runs remembered; hooks run immediately, so the latest suffice."""

watching = False
"""Whether any hooks are installed; without them no run is remembered."""


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """Data needed to continue a run, without arguments or results."""

    kind: Kind
    name: str
    trace: TraceState
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
    """Execution that closed the run, as seen by its retry."""
    at: float
    """Time of the end, by the monotonic clock."""

    def around(self, context: Context | None) -> Context | None:
        """Return the context for the next attempt's span, or `None` if another span is current.

        OpenTelemetry joins a trace only as a child of one of its spans.
        """
        if otel.get_current_span(context).get_span_context().is_valid:
            return None
        ids = int(self.otel_trace_id, 16), int(self.span_id, 16)
        before = SpanContext(*ids, is_remote=False, trace_flags=self.flags)
        return otel.set_span_in_context(NonRecordingSpan(before), context)

    def last_execution(self) -> Execution:
        """Return a placeholder for the execution that closed the run, to add events to."""
        execution = Execution(
            kind=self.kind,
            name=self.name,
            trace=self.trace,
            execution_id=self.execution_id,
            span=INVALID_SPAN,  # the original span has ended
            otel_trace_id=self.otel_trace_id,
            span_id=self.span_id,
            parent_span_id=self.parent_span_id,
            parent=None,
            tally=None,
            emitter=envelope.emit,
            request_id=self.request_id,
            session_id=self.session_id,
            user_id=self.user_id,
        )
        execution.state.indexes = self.indexes
        return execution

    def add(self, event: dict[str, Any], recorder: Recorder) -> None:
        """Record one more event as the last of the run, until another attempt continues it."""
        recorder.reopen(self.trace)
        now_ns = time.time_ns()
        envelope.record(event, self.last_execution(), recorder, now_ns, closes_run=True)


_failed: Final[dict[str, ClosedRun]] = {}
"""Failed runs by execution id, oldest first; exceptions carry the id."""
_returned: ContextVar[ClosedRun | None] = ContextVar("tracereel_returned", default=None)


def remember(execution: Execution, status: str, error: BaseException | None) -> None:
    """Remember a run whose outermost call ended, and mark its exception."""
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
    error_details.mark_run(error, run.execution_id)
    with lock:
        _failed[run.execution_id] = run
        if len(_failed) > MAX_REMEMBERED:
            del _failed[next(iter(_failed))]


def behind(error: BaseException | None, since: float) -> ClosedRun | None:
    """Remove and return the run of an attempt that raised this error or returned a result.

    Args:
        since: start of the loop, by the monotonic clock. Runs that ended earlier do not belong to it,
            because an exception object may be raised again.
    """
    if error is None:
        run = _returned.get()
        _returned.set(None)
    else:
        ids = error_details.take_runs(error)
        with lock:
            run = next((found for each in ids if (found := _failed.pop(each, None))), None)
    return run if run is not None and run.at >= since else None
