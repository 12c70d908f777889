"""Where a retry or fallback happens: whose events it emits, under which name, on which span."""

import time
from contextvars import Token
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode

from tracereel import _context, _emission, _failures, _guard, _recorder, semconv
from tracereel._clock import sortable_id
from tracereel._context import Execution
from tracereel._recorder import Recorder
from tracereel._run import Ended, State
from tracereel.resilience import _announced, _closed_runs, _slots
from tracereel.resilience._functions import Subject, error_text

_NAMED: Final = {
    "llm": "llm_model",
    "tool": "tool_name",
    "step": "step_name",
    "retrieval": "retrieval_name",
}
Mark = tuple[Token[_slots.Slot | None], Context]


class OwnSpan:
    """A span that a retry or fallback makes, and how the event that describes it tells of it."""

    __slots__ = ("_name", "_start_ns", "_tick", "parent_span_id", "started")

    def __init__(
        self,
        recorder: Recorder,
        name: str,
        attributes: dict[str, Any],
        beside: _closed_runs.ClosedRun | None = None,
    ) -> None:
        self._name = name
        self._start_ns = time.time_ns()
        self._tick = time.perf_counter_ns()
        context = beside.around(None) if beside is not None else None
        self.started = recorder.spans.start(name, attributes, self._start_ns, context)
        self.parent_span_id = self.started.parent_span_id
        if beside is not None and context is not None:
            self.parent_span_id = beside.parent_span_id

    def end(self, error: str | None) -> dict[str, Any]:
        """End it, with the text of an error as failed; gives what the event says of the span."""
        # The end is the start plus elapsed time: a wall clock set meanwhile changes nothing.
        end_ns = self._start_ns + time.perf_counter_ns() - self._tick
        span = self.started.span
        if error is not None and span.is_recording():
            span.set_attribute("error", error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=end_ns)
        return {
            "span_id": self.started.span_id,
            "parent_span_id": self.parent_span_id,
            "span_name": self._name,
            "span_start_unix_nano": self._start_ns,
            "span_end_unix_nano": end_ns,
        }


class Place:
    """One call of a retried or backed-up function. Inert (`execution` null) without recording."""

    __slots__ = (
        "_mark",
        "_operation",
        "_recorder",
        "_span",
        "_tried",
        "agent",
        "around",
        "execution",
        "tag",
    )

    def __init__(self, operation: str, subject: Subject) -> None:
        self.tag = subject.tag
        self.agent = subject.name
        self.around: Execution | None = None
        self.execution: Execution | None = None
        """The one whose events these are: that around, or, for an operation outside of every
        agent or around one, a stand-in that has only a span."""
        self._operation = operation
        self._recorder: Recorder | None = None
        self._span: OwnSpan | None = None
        self._mark: Mark | None = None
        self._tried: tuple[str, str] | None = None
        """The call whose code is tried, if that is no agent's: the field that names it, and its name."""
        self._recorder = recorder = _recorder.active()
        if recorder is None:
            return
        self.around = around = _context.current_execution()
        if around is not None and subject.tag is None:
            self.agent = subject.given or nearest_agent(around) or self.agent
            self.execution = around
            if subject.given is None and (field := _NAMED.get(around.kind)) is not None:
                self._tried = field, around.name
        elif subject.tag is not None or subject.given is not None:
            with _guard.Guard("resilience"):
                self._open(recorder)

    def _open(self, recorder: Recorder) -> None:
        """A logical span: attempts nest in it, and without anything around it makes one trace."""
        shown = recorder.spans.privacy.name("agent_name", self.agent)
        around = self.around
        again = None
        if around is None and _closed_runs.watching:
            again = _announced.continued("agent", self.agent, None)
        name, run = f"{self._operation} {shown}", again[0] if again is not None else None
        self._span = OwnSpan(recorder, name, {"agent.name": shown}, run)
        started = self._span.started
        if around is not None:
            trace = around.trace
        elif run is not None:
            trace = run.trace
            recorder.reopen(trace)
        else:
            trace = recorder.trace(started.otel_trace_id)
        if around is None:
            trace.over = trace.told = False
        self.execution = Execution(
            kind="agent",
            name=self.agent,
            trace=trace,
            execution_id=around.execution_id if around is not None else sortable_id("exe"),
            span=started.span,
            otel_trace_id=started.otel_trace_id,
            span_id=started.span_id,
            parent_span_id=self._span.parent_span_id,
            parent=around,
            tally=None,
            emitter=_emission.emit,
        )
        if again is not None:
            self.execution.repeats, self.execution.attempt = again[0].ended, again[1]
        self._mark = enter(_slots.current(), self._span)

    def close(self, error: BaseException | None) -> None:
        """End the logical span, where there is one, and describe it; the last event of the operation."""
        span, self._span = self._span, None
        if span is None:
            return
        with _guard.Guard("resilience"):
            if self._mark is not None:
                leave(self._mark)
            status, text = outcome_of(error)
            event = self._step(self._operation, status, span.end(text))
            if error is not None and status == semconv.FAILED:
                event.update(error_fields(error))
            if self.execution is not None:
                self.execution.ended = True
            if self.around is None and self.execution is not None:
                if (former := self.execution.repeats) is not None:
                    event["attempt"] = self.execution.attempt
                    event["repeats_execution_id"] = former.execution_id
                    event["repeats_status"] = former.status
                self.execution.trace.over = True
                record_last(self.execution, event)
                if _closed_runs.watching:
                    _closed_runs.remember(self.execution, status, error)
            else:
                self.emit(event)

    def emit(self, event: dict[str, Any]) -> None:
        """Record an event."""
        with _guard.Guard("resilience"):
            if self._recorder is None:
                return
            if self.execution is None:
                # As with decisions: there is no trace it could belong to.
                self._recorder.drop("no_execution")
            else:
                self.execution.emit(event)

    def follow(self, slot: _slots.Slot) -> None:
        """Belong to the trace of the execution that began inside, if nothing else says which."""
        if self.around is None and self.execution is not None and slot.execution is not None:
            self.execution.trace = slot.execution.trace

    def start_attempt(self, number: int) -> OwnSpan | None:
        """The span of an attempt; null where nothing is recorded."""
        recorder = self._recorder
        if recorder is None or self.execution is None:
            return None
        shown = recorder.spans.privacy.name("agent_name", self.agent)
        attributes = {"attempt": number, "agent.name": shown}
        tried = recorder.spans.privacy.name(*self._tried) if self._tried is not None else shown
        return OwnSpan(recorder, f"attempt {number} of {tried}", attributes)

    def end_attempt(self, number: int, span: dict[str, Any], outcome: dict[str, Any]) -> None:
        """Record the event that describes the last attempt's span; the others have their retry's."""
        event = self._step("attempt", semconv.SUCCESS, span)
        self.emit({**event, "attempt": number, **outcome})

    def waste(self, cause: str, ended: list[Ended]) -> None:
        """Count the cost of executions that were for nothing."""
        if self._recorder is not None:
            for each in ended:
                self._recorder.metrics.count_waste(each.agent_name, cause, each.cost_left)
                each.cost_left = 0.0

    def _step(self, kind: str, status: str, span: dict[str, Any]) -> dict[str, Any]:
        elapsed = span["span_end_unix_nano"] - span["span_start_unix_nano"]
        execution = self.execution
        return {
            "event_type": semconv.STEP_COMPLETED,
            "agent_name": self.agent,
            "request_id": execution.request_id if execution is not None else None,
            "step_name": span["span_name"],
            "step_type": kind,
            "status": status,
            "duration_ms": elapsed // 1_000_000,
            **span,
        }

    @property
    def state(self) -> State | None:
        """That of the execution in whose code this happens."""
        return self.around.state if self.around is not None else None

    @property
    def records(self) -> bool:
        """Whether anything is recorded at all."""
        return self._recorder is not None

    @property
    def captures(self) -> bool:
        """Whether what goes in and out may be recorded."""
        return self._recorder is not None and self._recorder.config.capture_content


def record_last(execution: Execution, event: dict[str, Any]) -> None:
    """Record the event that ends a run: it carries the final count of the trace."""
    recorder = _recorder.active()
    if recorder is not None:
        _emission.record(event, execution, recorder, time.time_ns(), closes_run=True)


def outcome_of(error: BaseException | None) -> tuple[str, str | None]:
    """How a call ended that has raised this, or nothing; and the text of its failure."""
    if error is None:
        return semconv.SUCCESS, None
    if _failures.cancels(error):
        return semconv.CANCELLED, None
    return semconv.FAILED, error_text(error)


def error_fields(error: BaseException) -> dict[str, Any]:
    """What the event of a step says of its failure."""
    failure = _failures.describe(error)
    return {
        "status": semconv.FAILED,
        "error_type": failure.error_type,
        "error_message": failure.error_message,
        "error_code": failure.error_code,
        "error_category": failure.error_category,
    }


def nearest_agent(execution: Execution) -> str | None:
    """The name of the agent that an execution is, or is part of; a pipeline is not one."""
    agent = execution.agent
    return agent.name if agent.kind == "agent" else None


def enter(slot: _slots.Slot | None, span: OwnSpan | None) -> Mark:
    """Make a slot and a span current."""
    around = otel_context.get_current()
    mark = _slots.enter(slot), around
    if span is not None:
        otel_context.attach(span.started.context)
    return mark


def leave(mark: Mark) -> None:
    """Undo `enter`, unless a coroutine is closed in another context than it ran in."""
    ours, around = mark
    if _slots.leave(ours):
        otel_context.attach(around)
