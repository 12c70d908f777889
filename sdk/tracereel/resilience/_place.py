"""Where a retry or fallback happens: whose events it emits, under which name, on which span."""

import time
from contextvars import Token
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode

from tracereel import _context, _emission, _guard, _recorder, semconv
from tracereel._clock import sortable_id
from tracereel._context import Execution
from tracereel._recorder import Recorder
from tracereel._spans import StartedSpan
from tracereel.resilience import _slots
from tracereel.resilience._functions import Subject

Mark = tuple[Token[_slots.Slot | None], Token[Context]]


class Place:
    """One call of a retried or backed-up function. Inert (`execution` null) without recording."""

    __slots__ = ("_mark", "_recorder", "_started", "agent", "around", "execution", "tag")

    def __init__(self, operation: str, subject: Subject) -> None:
        self.tag = subject.tag
        self.agent = subject.name
        self.around: Execution | None = None
        self.execution: Execution | None = None
        """The one whose events these are: that around, or, for an operation outside of every
        agent or around one, a stand-in that has only a span."""
        self._recorder: Recorder | None = None
        self._started: StartedSpan | None = None
        self._mark: Mark | None = None
        self._recorder = recorder = _recorder.active()
        if recorder is None:
            return
        self.around = around = _context.current_execution()
        if around is not None and subject.tag is None:
            self.agent = subject.given or nearest_agent(around) or self.agent
            self.execution = around
        elif subject.tag is not None or subject.given is not None:
            with _guard.Guard("resilience"):
                self._open(recorder, f"{operation} {self.agent}")

    def _open(self, recorder: Recorder, name: str) -> None:
        """A logical span: attempts nest in it, and without anything around it makes one trace."""
        started = recorder.spans.start(name, {"agent.name": self.agent}, time.time_ns())
        around = self.around
        self.execution = Execution(
            kind="agent",
            name=self.agent,
            trace=around.trace if around is not None else recorder.trace(started.otel_trace_id),
            execution_id=around.execution_id if around is not None else sortable_id("exe"),
            span=started.span,
            otel_trace_id=started.otel_trace_id,
            span_id=started.span_id,
            parent_span_id=started.parent_span_id,
            parent=around,
            tally=None,
            emitter=_emission.emit,
        )
        self._started = started
        self._mark = enter(_slots.current(), started)

    def close(self, error: str | None = None) -> None:
        """End the logical span, where there is one."""
        started, self._started = self._started, None
        if started is None:
            return
        with _guard.Guard("resilience"):
            if self._mark is not None:
                leave(self._mark)
            end_span(started, error)

    def emit(self, event: dict[str, Any], *, last: bool = False) -> None:
        """Record an event; `last` where nothing of this operation follows it."""
        with _guard.Guard("resilience"):
            if self._recorder is None:
                return
            if self.execution is None:
                # As with decisions: there is no trace it could belong to.
                self._recorder.drop("no_execution")
            elif last and self.around is None:
                record_last(self.execution, event)
            else:
                self.execution.emit(event)

    def follow(self, slot: _slots.Slot) -> None:
        """Belong to the trace of the execution that began inside, if nothing else says which."""
        if self.around is None and self.execution is not None and slot.execution is not None:
            self.execution.trace = slot.execution.trace

    def start_span(self, name: str, attributes: dict[str, Any]) -> StartedSpan | None:
        """A child span; null where nothing is recorded."""
        if self._recorder is None or self.execution is None:
            return None
        return self._recorder.spans.start(name, attributes, time.time_ns())

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
        name, fields = semconv.SPAN_EVENTS[event["event_type"]]
        shown = {label: event[field] for field, label in fields.items()}
        execution.span.add_event(name, attributes=shown)
        _emission.record(event, execution, recorder, time.time_ns(), closes_run=True)


def nearest_agent(execution: Execution) -> str | None:
    """The name of the agent that an execution is, or is part of; a pipeline is not one."""
    agent = execution.agent
    return agent.name if agent.kind == "agent" else None


def enter(slot: _slots.Slot | None, started: StartedSpan | None) -> Mark:
    """Make a slot and a span current."""
    context = started.context if started is not None else otel_context.get_current()
    return _slots.enter(slot), otel_context.attach(context)


def leave(mark: Mark) -> None:
    """Undo `enter`, unless a coroutine is closed in another context: OpenTelemetry would log it."""
    ours, theirs = mark
    if _slots.leave(ours):
        otel_context.detach(theirs)


def end_span(started: StartedSpan, error: str | None) -> None:
    """End a span of ours; with the text of an error, as failed."""
    if error is not None and started.span.is_recording():
        started.span.set_attribute("error", error)
        started.span.set_status(Status(StatusCode.ERROR, error))
    started.span.end()
