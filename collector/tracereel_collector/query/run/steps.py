"""Conversion of rows into steps with start and end, and assignment of events to steps."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.positions import BEGINNING, Cursor
from tracereel_collector.query.run.rows import SpanEventRow, SpanRow

MILLI: Final = 1_000_000
_SCOPES: Final = {
    "agent.pipeline.started": "pipeline",
    "agent.pipeline.completed": "pipeline",
    "agent.execution.started": "agent",
    "agent.execution.completed": "agent",
    "agent.execution.failed": "agent",
    "agent.execution.cancelled": "agent",
}
_CALLS: Final = {
    "agent.llm.called": "llm",
    "agent.tool.called": "tool",
    "agent.retrieval.completed": "retrieval",
    "agent.step.completed": "step",
}
_STEP_TYPES: Final = frozenset({"attempt", "retry", "fallback"})
"""SDK steps that are an attempt, or the operation around attempts."""
RETRY, FALLBACK = "agent.retry.attempted", "agent.fallback.triggered"
DECISION: Final = "agent.decision.recorded"
_CALL_KINDS: Final = {"workflow": "pipeline", "embedding": "llm", "rerank": "llm"}
ENDED: Final = frozenset({"success", "partial_success", "failed", "cancelled"})
NO_EVENT: Final = EventRow()


class StepSpanEvent(msgspec.Struct, eq=False):
    """Event that the program added to the span of a step, with its place in the timeline."""

    row: SpanEventRow
    cursor: Cursor = BEGINNING


class RunStep(msgspec.Struct, eq=False):
    """One step of a run. Built by this package; read-only for others."""

    id: str
    kind: str
    """pipeline, agent, llm, tool, retrieval, step, attempt, retry, fallback; for spans also span."""
    name: str = ""
    trace_id: str = ""
    agent: str = ""
    service: str = ""
    clock: str = ""
    """Source of its times: an emitter, or a service that sends spans."""
    parent_id: str = ""
    execution_id: str = ""
    request_id: str = ""
    parent_trace_id: str = ""
    has_span: bool = True
    """Whether it has a span; if not, events are grouped by name."""
    start: int = 0
    """Unix nanoseconds on its own clock; `shift` converts to the clock of the run."""
    end: int | None = None
    shift: int = 0
    position: int = 0
    """Start in causal order, by the hybrid logical clock."""
    cursor: Cursor = BEGINNING
    """Place in the timeline of a step that only a span describes."""
    reported_ms: int | None = None
    status: str = ""
    source: str = "events"
    """events, otlp, or both."""
    events: list[EventRow] = []
    span: SpanRow | None = None
    span_events: list[StepSpanEvent] = []
    """Events of its span, by time."""
    opening: EventRow | None = None
    closing: EventRow | None = None
    parent: "RunStep | None" = None
    again: "RunStep | None" = None
    """Step that retried this one as a whole."""
    children: "Sequence[RunStep]" = ()

    @property
    def began(self) -> int:
        """Start, on the clock of the run."""
        return self.start + self.shift

    @property
    def ended(self) -> int | None:
        """End, on the clock of the run; `None` while open."""
        return None if self.end is None else self.end + self.shift

    @property
    def duration_ns(self) -> int | None:
        """Duration; `None` while open."""
        return None if self.end is None else self.end - self.start

    @property
    def ending(self) -> EventRow:
        """Closing event; an empty one if there is none."""
        return self.closing or NO_EVENT

    @property
    def is_failed(self) -> bool:
        """Whether it failed, retried or not."""
        return self.status in ("failed", "retried")


def clock_of(row: EventRow) -> str:
    """Return the source of an event's times."""
    return row.emitter_id or f"service:{row.service}"


def steps_of(
    events: Sequence[EventRow],
    spans: Iterable[SpanRow],
    span_events: Iterable[SpanEventRow] = (),
) -> tuple[list[RunStep], list[EventRow]]:
    """Return the steps with parents named but not linked, and the events outside of steps."""
    build = _Build()
    for row in events:
        if row.event_type in _SCOPES and row.span_id:
            build.scopes.add((row.trace_id, row.span_id))
    for row in events:
        build.take(row)
    for span in spans:
        build.take_span(span)
    for each in span_events:
        build.take_span_event(each)
    return build.steps, build.loose()


class _Build:
    """Builder that assigns events to steps in causal order."""

    def __init__(self) -> None:
        self.steps: list[RunStep] = []
        self.scopes: set[tuple[str, str]] = set()
        self._by_span: dict[tuple[str, str], RunStep] = {}
        self._by_id: dict[str, RunStep] | None = None
        self._by_execution: dict[tuple[str, str], RunStep] = {}
        self._open: dict[tuple[str, str, str, str], list[RunStep]] = {}
        """Open scopes without a span, by run, kind, name and request."""
        self._of_agent: dict[tuple[str, str], RunStep] = {}
        self._pipeline: dict[str, RunStep] = {}
        self._first: dict[str, RunStep] = {}
        self._early: list[EventRow] = []
        """Events before the first step that could contain them."""
        self._pending: dict[tuple[str, str], list[EventRow]] = {}
        """Events of spans that have not appeared yet."""

    def take(self, row: EventRow) -> None:
        if (kind := _SCOPES.get(row.event_type)) is not None:
            self._take_scope(row, kind)
        elif (kind := _CALLS.get(row.event_type)) is not None:
            self._take_call(row, row.step_type if row.step_type in _STEP_TYPES else kind)
        elif row.event_type == RETRY and row.span_start and row.span_id:
            step = self._take_call(row, "attempt")
            step.status = "retried"
        else:
            self._take_moment(row)

    def take_span(self, span: SpanRow) -> None:
        if self._by_id is None:
            # Foreign spans belong to no run, so own spans are matched by span id alone.
            self._by_id = {}
            for (_, span_id), step in self._by_span.items():
                self._by_id.setdefault(span_id, step)
        same = self._by_id.get(span.span_id)
        if same is not None:
            same.source, same.span = "both", span
            return
        kind = _CALL_KINDS.get(span.call_kind, span.call_kind) or "span"
        step = RunStep(
            id=span.span_id,
            kind=kind,
            name=span.tool_name or (span.agent_name if kind == "agent" else "") or span.name,
            trace_id=span.trace_id,
            agent=span.agent_name,
            service=span.service,
            clock=f"service:{span.service}",
            parent_id=span.parent_span_id,
            start=span.began,
            end=span.began + span.duration,
            position=span.began,
            status={"Error": "failed", "Ok": "success"}.get(span.status_code, "success"),
            source="otlp",
            span=span,
        )
        self._by_id[span.span_id] = step
        self.steps.append(step)

    def take_span_event(self, row: SpanEventRow) -> None:
        if self._by_id is not None and (step := self._by_id.get(row.span_id)) is not None:
            step.span_events.append(StepSpanEvent(row))

    def _new(self, row: EventRow, kind: str, *, own_id: bool) -> RunStep:
        step = RunStep(
            id=row.span_id if own_id else row.event_id,
            kind=kind,
            trace_id=row.trace_id,
            service=row.service,
            clock=clock_of(row),
            execution_id=row.execution_id,
            request_id=row.request_id,
            has_span=bool(row.span_id),
            start=row.unix_nano,
            position=row.hlc,
        )
        self.steps.append(step)
        self._first.setdefault(row.trace_id, step)
        if own_id:
            key = (row.trace_id, row.span_id)
            self._by_span[key] = step
            if self._pending:
                step.events.extend(self._pending.pop(key, ()))
        return step

    def _take_scope(self, row: EventRow, kind: str) -> None:
        name = row.pipeline_type if kind == "pipeline" else row.agent_name
        key = (row.trace_id, kind, name, row.request_id)
        is_start = row.event_type.endswith(".started")
        step: RunStep | None = None
        if row.span_id:
            step = self._by_span.get((row.trace_id, row.span_id))
        elif not is_start and (waiting := self._open.get(key)):
            step = waiting.pop()
        if step is None:
            step = self._new(row, kind, own_id=bool(row.span_id))
            if is_start and not row.span_id:
                self._open.setdefault(key, []).append(step)
        step.name = step.name or name
        step.agent = step.agent or row.agent_name
        step.parent_id = row.parent_span_id or step.parent_id
        step.parent_trace_id = row.parent_trace_id or step.parent_trace_id
        step.events.append(row)
        if is_start:
            step.opening = step.opening or row
        else:
            _close(step, row)
        if row.execution_id:
            self._by_execution.setdefault((row.trace_id, row.execution_id), step)
        if kind == "agent":
            self._of_agent[row.trace_id, row.agent_name] = step
        else:
            self._pipeline.setdefault(row.trace_id, step)

    def _take_call(self, row: EventRow, kind: str) -> RunStep:
        """Add a call, which is a single event at its end."""
        key = (row.trace_id, row.span_id)
        # A call that reuses the span of its agent is still a separate step.
        own_id = bool(row.span_id) and key not in self._by_span and key not in self.scopes
        step = self._new(row, kind, own_id=own_id)
        if kind == "llm":
            step.name = row.llm_model or row.span_name or "model"
        elif kind in _STEP_TYPES:
            step.name = row.span_name or row.call_name or kind
        else:
            step.name = row.call_name or row.span_name or row.llm_model or kind
        step.agent = row.agent_name
        if own_id:
            step.parent_id = row.parent_span_id
        elif row.span_id:
            step.parent_id = row.span_id
        else:
            around = self._around(row)
            step.parent_id = row.parent_span_id or (around.id if around else "")
        step.events.append(row)
        _close(step, row)
        return step

    def _take_moment(self, row: EventRow) -> None:
        if row.span_id:
            step = self._by_span.get((row.trace_id, row.span_id))
            if step is None:
                self._pending.setdefault((row.trace_id, row.span_id), []).append(row)
                return
        else:
            step = self._around(row)
        if step is not None:
            step.events.append(row)
        else:
            self._early.append(row)

    def loose(self) -> list[EventRow]:
        """Assign remaining events to steps; return those that belong to none."""
        waiting = [row for rows in self._pending.values() for row in rows] + self._early
        nowhere = []
        for row in waiting:
            if (step := self._around(row)) is not None:
                step.events.append(row)
                step.events.sort(key=lambda each: (each.hlc, each.sequence_number))
            else:
                nowhere.append(row)
        return sorted(nowhere, key=lambda each: (each.hlc, each.sequence_number))

    def _around(self, row: EventRow) -> RunStep | None:
        """Return the innermost known step for an event without a span."""
        name = row.primary_agent or row.agent_name
        return (
            self._by_execution.get((row.trace_id, row.execution_id))
            or self._of_agent.get((row.trace_id, name))
            or self._pipeline.get(row.trace_id)
            or self._first.get(row.trace_id)
        )


def _close(step: RunStep, row: EventRow) -> None:
    """Close a step with its last event; exact span times take precedence over event times."""
    step.closing = row
    step.status = row.status or "success"
    step.reported_ms = reported = row.duration_ms
    if row.span_start and row.span_end >= row.span_start:
        step.start, step.end = row.span_start, row.span_end
    elif step.opening is not None:
        step.end = max(row.unix_nano, step.start)
    else:
        step.start, step.end = row.unix_nano - (reported or 0) * MILLI, row.unix_nano
    if step.opening is None:
        step.position = row.hlc - max(0, row.unix_nano - step.start)
