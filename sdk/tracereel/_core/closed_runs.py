"""Recently closed runs, for third-party retry loops that continue them.

Such a loop is not traced itself. Its hook runs after the run of the failed attempt was closed, when
no execution is current. The exception identifies the run, or the context if a result was rejected.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext

from tracereel._core import envelope, error_details
from tracereel._core.context import Execution
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Ended, lock
from tracereel._telemetry.spans import StartedSpan

MAX_REMEMBERED: Final = 1024
"""Maximum number of failed runs remembered; hooks run immediately, so the latest suffice."""

watching = False
"""Whether any hooks are installed; without them no run is remembered."""


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """Data needed to continue a run, without arguments or results."""

    last: Execution
    """Placeholder for the execution that closed the run, to add events to."""
    ended: Ended
    """The same execution, as seen by its retry."""
    at: float
    """Time of the end, by the monotonic clock."""

    def around(self, context: Context | None) -> Context | None:
        """Return the context for the next attempt's span, or `None` if another span is current.

        OpenTelemetry joins a trace only as a child of one of its spans.
        """
        if otel.get_current_span(context).get_span_context().is_valid:
            return None
        return otel.set_span_in_context(self.last.span, context)

    def add(self, event: dict[str, Any], recorder: Recorder) -> None:
        """Record one more event as the last of the run, until another attempt continues it."""
        recorder.reopen(self.last.trace)
        envelope.record_all([event], self.last, recorder, time.time_ns(), closes_run=True)


_failed: Final[dict[str, ClosedRun]] = {}
"""Failed runs by execution id, oldest first; exceptions carry the id."""
_returned: ContextVar[ClosedRun | None] = ContextVar("tracereel_returned", default=None)


def remember(execution: Execution, status: str, error: BaseException | None) -> None:
    """Remember a run whose outermost call ended, and mark its exception."""
    ids = int(execution.otel_trace_id, 16), int(execution.span_id, 16)
    flags = execution.span.get_span_context().trace_flags
    # The original span has ended.
    span = NonRecordingSpan(SpanContext(*ids, is_remote=False, trace_flags=flags))
    last = Execution(
        execution.kind,
        execution.name,
        execution.trace,
        execution.execution_id,
        StartedSpan(
            span,
            execution.otel_trace_id,
            execution.span_id,
            execution.parent_span_id,
            Context(),
            records=False,
        ),
        request_id=execution.request_id,
        session_id=execution.session_id,
        user_id=execution.user_id,
    )
    last.state.indexes = execution.state.indexes
    last.module = execution.module
    ended = Ended(
        execution.name,
        execution.execution_id,
        status,
        retry_count=execution.retry_count,
        earlier=execution.earlier,
    )
    run = ClosedRun(last, ended, time.monotonic())
    if error is None:
        _returned.set(run)
        return
    error_details.mark_run(error, last.execution_id)
    with lock:
        _failed[last.execution_id] = run
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
