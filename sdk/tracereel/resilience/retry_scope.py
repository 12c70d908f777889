"""Scope of a retry or fallback: its execution, agent name and span."""

import time
from contextvars import Token
from typing import Any, ClassVar, Final, Self

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode

from tracereel import semconv
from tracereel._core import (
    attempt_context,
    closed_runs,
    envelope,
    error_details,
    external_retries,
    result_fields,
)
from tracereel._core import context as _context
from tracereel._core import recorder as _recorder
from tracereel._core.context import Execution
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Ended, ExecutionState
from tracereel._runtime import guard
from tracereel._runtime.clock import sortable_id
from tracereel.resilience.wrapped_functions import Subject, error_text

_NAMED: Final = {
    "llm": "llm_model",
    "tool": "tool_name",
    "step": "step_name",
    "retrieval": "retrieval_name",
}
Mark = tuple[Token[attempt_context.Slot | None], Context]


class OwnSpan:
    """Span of a retry or fallback, with the event fields that describe it."""

    __slots__ = ("_name", "_start_ns", "_tick", "started")

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        attributes: dict[str, Any],
        beside: closed_runs.ClosedRun | None = None,
    ) -> None:
        self._name = name
        self._start_ns = time.time_ns()
        self._tick = time.perf_counter_ns()
        context = beside.around(None) if beside is not None else None
        self.started = recorder.spans.start(name, attributes, self._start_ns, context)
        if beside is not None and context is not None:
            self.started = self.started._replace(parent_span_id=beside.last.parent_span_id)

    def end(self, error: str | None) -> dict[str, Any]:
        """End the span, as failed if there is an error text; return its event fields."""
        # Start plus elapsed time, so that changes of the wall clock have no effect.
        end_ns = self._start_ns + time.perf_counter_ns() - self._tick
        span = self.started.span
        if error is not None and span.is_recording():
            span.set_attribute("error", error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=end_ns)
        return {
            "span_id": self.started.span_id,
            "parent_span_id": self.started.parent_span_id,
            "span_name": self._name,
            "span_start_unix_nano": self._start_ns,
            "span_end_unix_nano": end_ns,
        }


class RetryScope:
    """One call of a function with retries or fallbacks; does nothing if recording is off."""

    operation: ClassVar[str]

    __slots__ = (
        "_module",
        "_operation_mark",
        "_operation_span",
        "_recorder",
        "_tried",
        "agent",
        "around",
        "execution",
        "tag",
    )

    def __init__(self, subject: Subject) -> None:
        self.tag = subject.tag
        self.agent = subject.name
        self._module = subject.module
        self.around: Execution | None = None
        self.execution: Execution | None = None
        """Execution that the events belong to.

        The surrounding execution or, if the function is an agent itself or has a given name outside
        of every agent, a stand-in with only a span.
        """
        self._operation_span: OwnSpan | None = None
        self._operation_mark: Mark | None = None
        self._tried: tuple[str, str] | None = None
        """Field and name of the surrounding call, if it is not an agent."""
        self._recorder = recorder = _recorder.active()
        if recorder is None:
            return
        self.around = around = _context.current_execution()
        if around is not None and subject.tag is None:
            self.agent = subject.given or around.agent_name or self.agent
            self.execution = around
            if subject.given is None and (field := _NAMED.get(around.kind)) is not None:
                self._tried = field, around.name
        elif subject.tag is not None or subject.given is not None:
            with guard.Guard("resilience"):
                self._open(recorder, around)

    def __enter__(self) -> Self:
        return self

    def _open(self, recorder: Recorder, around: Execution | None) -> None:
        """Start the parent span that keeps the attempts in one trace."""
        shown = recorder.spans.privacy.name("agent_name", self.agent)
        again = run = None
        if around is None and closed_runs.watching:
            again = external_retries.continued("agent", self.agent, None)
            run = again[0] if again is not None else None
        span = OwnSpan(recorder, f"{self.operation} {shown}", {"agent.name": shown}, run)
        self._operation_span = span
        if around is not None:
            trace = around.trace
        elif run is not None:
            trace = run.last.trace
            recorder.reopen(trace)
        else:
            trace = recorder.trace(span.started.otel_trace_id)
        if around is None:
            trace.over = trace.is_closed = False
        execution_id = around.execution_id if around is not None else sortable_id("exe")
        self.execution = Execution("agent", self.agent, trace, execution_id, span.started, around)
        self.execution.module = self._module or self.execution.module
        if again is not None:
            self.execution.repeats, self.execution.attempt = again[0].ended, again[1]
        self._operation_mark = enter(attempt_context.current(), span)

    def close(self, error: BaseException | None) -> None:
        """End the logical span, if any, and record its event, the last of the operation."""
        span, self._operation_span = self._operation_span, None
        if span is None:
            return
        execution = self.execution
        with guard.Guard("resilience"):
            if self._operation_mark is not None:
                leave(self._operation_mark)
            status, text = outcome_of(error)
            event = self._step(self.operation, status, span.end(text))
            if error is not None and status == semconv.FAILED:
                event.update(error_fields(error))
            if execution is not None:
                execution.ended = True
            if self.around is not None or execution is None:
                self.emit(event)
                return
            if (former := execution.repeats) is not None:
                event["attempt"] = execution.attempt
                event["repeats_execution_id"] = former.execution_id
                event["repeats_status"] = former.status
            execution.trace.over = True
            if (recorder := _recorder.active()) is not None:
                envelope.record_all([event], execution, recorder, time.time_ns(), closes_run=True)
            if closed_runs.watching:
                closed_runs.remember(execution, status, error)

    def emit(self, event: dict[str, Any]) -> None:
        """Record an event; drop it if there is no execution."""
        with guard.Guard("resilience"):
            if self._recorder is None:
                return
            if self.execution is None:
                # There is no trace that it could belong to.
                self._recorder.drop("no_execution")
            else:
                self.execution.emit(event)

    def follow(self, slot: attempt_context.Slot) -> None:
        """Adopt the trace of the inner execution if there is no surrounding one."""
        if self.around is None and self.execution is not None and slot.execution is not None:
            self.execution.trace = slot.execution.trace

    def start_attempt(self, number: int) -> OwnSpan | None:
        """Start the span of an attempt; None if nothing is recorded."""
        recorder = self._recorder
        if recorder is None or self.execution is None:
            return None
        shown = recorder.spans.privacy.name("agent_name", self.agent)
        attributes = {"attempt": number, "agent.name": shown}
        tried = recorder.spans.privacy.name(*self._tried) if self._tried is not None else shown
        return OwnSpan(recorder, f"attempt {number} of {tried}", attributes)

    def end_attempt(self, number: int, span: dict[str, Any], outcome: dict[str, Any]) -> None:
        """Record the event of the last attempt's span; earlier ones have retry events."""
        event = self._step("attempt", semconv.SUCCESS, span)
        self.emit({**event, "attempt": number, **outcome})

    def confidence_in(self, result: object) -> float | None:
        """Return the confidence that a result itself has, or None."""
        reader = self._recorder.results if self._recorder is not None else result_fields.DEFAULT
        found: float | None = reader.read(result).get("confidence")
        return found

    def waste(self, cause: str, ended: list[Ended]) -> None:
        """Count the cost of executions whose results were discarded."""
        if self._recorder is not None:
            for each in ended:
                self._recorder.metrics.count_waste(each.agent_name, cause, each.cost_left)
                each.cost_left = 0.0

    def _step(self, kind: str, status: str, span: dict[str, Any]) -> dict[str, Any]:
        elapsed = span["span_end_unix_nano"] - span["span_start_unix_nano"]
        return {
            "event_type": semconv.STEP_COMPLETED,
            "agent_name": self.agent,
            "request_id": self.execution.request_id if self.execution is not None else None,
            "step_name": span["span_name"],
            "step_type": kind,
            "status": status,
            "duration_ms": elapsed // 1_000_000,
            **span,
        }

    @property
    def state(self) -> ExecutionState | None:
        """State of the surrounding execution."""
        return self.around.state if self.around is not None else None

    @property
    def records(self) -> bool:
        """Whether recording is on."""
        return self._recorder is not None


def outcome_of(error: BaseException | None) -> tuple[str, str | None]:
    """Return the status of a call and its error text, if it failed."""
    if error is None:
        return semconv.SUCCESS, None
    if error_details.cancels(error):
        return semconv.CANCELLED, None
    return semconv.FAILED, error_text(error)


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return the error fields of a step event."""
    failure = error_details.describe(error)
    return {
        "status": semconv.FAILED,
        "error_type": failure.error_type,
        "error_message": failure.error_message,
        "error_code": failure.error_code,
        "error_category": failure.error_category,
    }


def nearest_agent(execution: Execution) -> str | None:
    """Return the name of an execution's agent; None if it is only in a pipeline."""
    return execution.agent_name


def enter(slot: attempt_context.Slot | None, span: OwnSpan | None) -> Mark:
    """Make a slot and a span current."""
    around = otel_context.get_current()
    mark = attempt_context.enter(slot), around
    if span is not None:
        otel_context.attach(span.started.context)
    return mark


def leave(mark: Mark) -> None:
    """Undo `enter`, unless a coroutine is closed in a different context."""
    ours, around = mark
    if attempt_context.leave(ours):
        otel_context.attach(around)
