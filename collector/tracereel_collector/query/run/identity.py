"""Name, status, session, errors and duration of a run, as in the list of runs.

The list has them from the rollup (`store/templates/*_summaries.sql`, `COLUMNS` in `query/filters.py`).
The rules are the same here, over the rows of the run itself: child runs have their own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

import msgspec

from tracereel import semconv
from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.query.run.calls import Repeated
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.rows import SpanRow
from tracereel_collector.query.run.steps import MILLI, RunStep
from tracereel_collector.query.run.tree import STALE_SECONDS, RunTree
from tracereel_collector.store.rollups import ATTEMPTS, CLOSING, MAX_DURATION_MS, OPERATION

_PIPELINE, _AGENT, _CALL, _ROOT_SPAN, _INNER_CALL, _INNER_SPAN = 5, 4, 3, 2, 1, 0
_RANKS: Final = {
    **dict.fromkeys((semconv.PIPELINE_STARTED, semconv.PIPELINE_COMPLETED), _PIPELINE),
    **dict.fromkeys((semconv.EXECUTION_STARTED, *CLOSING), _AGENT),
}
_OPERATION: Final = re.compile(OPERATION)

_Place = tuple[int, int, str]
"""Rank of the row that names or ends a run, its time, and the name or status."""


class _Told(msgspec.Struct, frozen=True, gc=False):
    """Event with what each rule needs of it, worked out once: a run may have tens of thousands."""

    event: EventRow
    rank: int | None
    began: int
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Name, status, times and owners of a run, the same in lists and on its page."""

    name: str
    status: str
    session_id: str
    user_id: str
    errors: int
    began: int
    """Unix nanoseconds."""
    ended: int
    last: EventRow | SpanRow | None
    """Event or span with which the run ended; `None` while it is going on."""

    @property
    def duration_ms(self) -> float:
        """Duration to the microsecond."""
        return (self.ended - self.began) // 1_000 / 1_000


def identity_of(run: RunTree, repeated: Repeated) -> RunIdentity:
    """Return the identity of a run, without its child runs."""
    rows = [row for row in run.events if row.event_type != semconv.TAPE_RECORDED]
    own = [row for row in rows if row.trace_id == run.trace_id] or rows
    traces = {otel_trace_id(run.trace_id), *(row.otel_trace_id for row in own)}
    spans = [span for span in run.spans if span.trace_id in traces]
    runs = {row.trace_id for row in own}
    steps = [step for step in run.steps if step.trace_id in runs and step.source != "otlp"]
    ranked = [_Told(row, _rank(row), *_moments(row)) for row in own]
    status, last = _status(run, ranked, spans, steps)
    alone = [
        step
        for step in run.steps
        if step.source == "otlp" and step.trace_id in traces and id(step) not in repeated
    ]
    return RunIdentity(
        name=_name(ranked, spans),
        status=status,
        session_id=_first([row.session_id for row in own], [row.session_id for row in spans]),
        user_id=_first([row.user_id for row in own], [row.user_id for row in spans]),
        errors=_errors(own, alone),
        began=min(
            chain((row.began for row in ranked), (span.began for span in spans)), default=run.began
        ),
        ended=max(
            chain((row.ended for row in ranked), (span.began + span.duration for span in spans)),
            default=run.ended,
        ),
        last=last,
    )


def _first(*values: Sequence[str]) -> str:
    """Return the first in the alphabet: the list has its values as a set."""
    return min(filter(None, chain(*values)), default="")


def _rank(row: EventRow) -> int | None:
    if row.event_type in semconv.CALLS:
        return _INNER_CALL if row.parent_span_id else _CALL
    return _RANKS.get(row.event_type)


def _moments(row: EventRow) -> tuple[int, int]:
    """Return start and end of the work that an event describes."""
    at = row.unix_nano
    if row.span_start and row.span_end >= row.span_start:
        return min(at, row.span_start), max(at, row.span_end)
    if row.event_type in semconv.CALLS:
        return at - min(row.duration_ms or 0, MAX_DURATION_MS) * MILLI, at
    return at, at


def _name(rows: Sequence[_Told], spans: Sequence[SpanRow]) -> str:
    begun = [
        (row.rank, -(row.event.hlc if row.rank >= _AGENT else row.began), row.event)
        for row in rows
        if row.rank is not None and (row.rank < _AGENT or row.event.event_type.endswith(".started"))
    ]
    first = max((place[:2] for place in begun), default=None)
    named: list[_Place] = [
        (rank, clock, _called(event, rank))
        for rank, clock, event in begun
        if (rank, clock) == first
    ]
    named += [
        (_INNER_SPAN if span.parent_span_id else _ROOT_SPAN, -span.began, span.name)
        for span in spans
    ]
    # Without what began: of the pipelines, then of the agents, the first in the alphabet.
    return (
        max(named, default=(0, 0, ""))[2]
        or _first([row.event.pipeline_type for row in rows], [span.workflow_name for span in spans])
        or _first([row.event.agent_name for row in rows], [span.agent_name for span in spans])
    )


def _called(row: EventRow, rank: int) -> str:
    """Return the name that an event gives its run."""
    if rank >= _AGENT:
        return row.pipeline_type or row.agent_name
    if row.event_type == semconv.LLM_CALLED:
        return row.span_name or f"chat {row.llm_model}".strip()
    if row.event_type == semconv.TOOL_CALLED:
        name = row.span_name or f"{semconv.EXECUTE_TOOL} {row.tool_name}".strip()
    else:
        name = row.span_name or row.event_type.split(".")[1]
    return _OPERATION.sub("", name)


def _status(
    run: RunTree, rows: Sequence[_Told], spans: Sequence[SpanRow], steps: Sequence[RunStep]
) -> tuple[str, EventRow | SpanRow | None]:
    ends: list[tuple[_Place, EventRow | SpanRow]] = []
    for row in rows:
        event = row.event
        if row.rank is not None and not event.event_type.endswith(".started"):
            clock = -row.began if row.rank == _INNER_CALL else event.hlc
            ends.append(((row.rank, clock, event.status or semconv.SUCCESS), event))
    for span in spans:
        how = semconv.FAILED if span.status_code == "Error" else semconv.SUCCESS
        is_inner = bool(span.parent_span_id)
        rank, clock = (_INNER_SPAN, -span.began) if is_inner else (_ROOT_SPAN, span.began)
        ends.append(((rank, clock, how), span))
    nothing: tuple[_Place, None] = ((-1, 0, ""), None)
    (rank, _, status), last = max(ends, key=lambda each: each[0], default=nothing)
    open_steps = {
        kind: [step.status for step in steps if step.kind == kind and step.end is None]
        for kind in ("pipeline", "agent")
    }
    if open_steps["pipeline"]:
        return _open(open_steps["pipeline"]), None
    if rank < _PIPELINE and open_steps["agent"]:
        return _open(open_steps["agent"]), None
    if last is None:
        return "unknown" if rows else "running", None
    if rank == _INNER_SPAN and run.now and run.now - _latest(spans) < STALE_SECONDS * 1_000_000_000:
        return "running", None
    return status, last


def _latest(spans: Sequence[SpanRow]) -> int:
    """Return when the last span ended, or came: clocks of senders may be ahead."""
    ended = max(span.began + span.duration for span in spans)
    arrived = datetime.fromisoformat(max(span.ingested_at for span in spans)).timestamp()
    return min(ended, round(arrived) * 1_000_000_000)


def _open(statuses: Sequence[str]) -> str:
    """Return the status of a run with open steps."""
    return "running" if "running" in statuses else statuses[0] or "unknown"


def _errors(rows: Sequence[EventRow], alone: Sequence[RunStep]) -> int:
    """Count failures: agents, calls outside of agents, spans; else pipelines."""
    failed = sum(
        row.event_type == semconv.EXECUTION_FAILED
        or (
            row.event_type in semconv.CALLS
            and row.status == semconv.FAILED
            and not row.agent_name
            and row.step_type not in ATTEMPTS
        )
        for row in rows
    ) + sum(step.is_failed for step in alone)
    return failed or sum(
        row.event_type == semconv.PIPELINE_COMPLETED and row.status == semconv.FAILED
        for row in rows
    )
