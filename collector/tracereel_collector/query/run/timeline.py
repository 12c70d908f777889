"""Timeline of a run: events and spans in causal order, as sent."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.rows import Cursor, EventRow, SpanRow
from tracereel_collector.query.run.serialize import milliseconds, moment
from tracereel_collector.query.run.steps import MILLI, RunStep
from tracereel_collector.query.run.usage import NOTHING, StepUsage

_MICRO = 1_000
SPAN_EVENT = "otel.span"
"""Event name of spans of other instrumentations."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One encoded entry of a timeline."""

    cursor: Cursor
    offset_ms: float
    data: bytes


class _About(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """Fields that the model adds to an entry; unknown ones are left out."""

    id: str
    parent_id: str = ""
    kind: str = ""
    agent: str = ""
    offset_ms: float
    duration_ms: float | None = None
    decision: str = ""
    reasoning: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    chain: str = ""
    """Operation of which it is an attempt or fallback."""


def timeline_of(analysis: Analysis, *, tenant: str) -> list[Entry]:
    """Return all events and spans in causal order, without tape parts."""
    run = analysis.run
    origin = run.began
    chains = _chains(analysis)
    found: list[Entry] = []
    for step in run.steps:
        usage = analysis.totals[id(step)]
        chain = chains.get(id(step), "")
        found += [
            event_entry(row, tenant=tenant, origin=origin, step=step, usage=usage, chain=chain)
            for row in step.events
            if row.event_type != TAPE_RECORDED
        ]
        if step.source == "otlp" and step.span is not None:
            found.append(
                span_entry(step.span, tenant=tenant, origin=origin, step=step, usage=usage)
            )
    found += [
        event_entry(row, tenant=tenant, origin=origin)
        for row in run.loose
        if row.event_type != TAPE_RECORDED
    ]
    return sorted(found, key=lambda entry: entry.cursor)


def event_entry(
    row: EventRow,
    *,
    tenant: str,
    origin: int,
    step: RunStep | None = None,
    usage: StepUsage = NOTHING,
    chain: str = "",
) -> Entry:
    """Return an event entry; its payload is spliced in unchanged."""
    closes = step is not None and step.closing is row
    offset = row.unix_nano + (step.shift if step is not None else 0) - origin
    if -_MICRO < offset < 0:
        offset = 0  # event times have microseconds, span times nanoseconds
    if step is None:
        usage = StepUsage(row.tokens, None, None, row.cost_usd)
    about = _About(
        id=step.id if step is not None else row.span_id or row.event_id,
        parent_id=step.parent.id if step is not None and step.parent is not None else "",
        kind=step.kind if step is not None else "",
        agent=(step.agent if step is not None else "") or row.agent_name or row.primary_agent,
        offset_ms=offset / MILLI,
        duration_ms=milliseconds(step.duration_ns)
        if closes and step is not None
        else row.duration_ms,
        decision=row.decision_type,
        reasoning=row.reasoning,
        tokens=usage.tokens if closes or step is None else None,
        cost_usd=usage.cost_usd if closes or step is None else None,
        chain=chain,
    )
    added = {
        "tenant": tenant,
        "sequence_number": row.sequence_number,
        "ingested_at": row.ingested_at,
    }
    details = row.payload.encode().rstrip()[:-1] + b"," + msgspec.json.encode(added)[1:]
    return Entry(
        Cursor(row.hlc, row.sequence_number),
        offset / MILLI,
        _spliced(row.time, row.event_type, details, about),
    )


def span_entry(
    span: SpanRow,
    *,
    tenant: str,
    origin: int,
    step: RunStep | None = None,
    usage: StepUsage = NOTHING,
) -> Entry:
    """Return a span entry, placed at the start of the span."""
    shift = step.shift if step is not None else 0
    offset = (span.began + shift - origin) / MILLI
    position = step.position if step is not None else span.began
    about = _About(
        id=span.span_id,
        parent_id=step.parent.id
        if step is not None and step.parent is not None
        else span.parent_span_id,
        kind=step.kind if step is not None else span.call_kind or "span",
        agent=span.agent_name,
        offset_ms=offset,
        duration_ms=milliseconds(span.duration),
        tokens=usage.tokens if step is not None else span.tokens,
        cost_usd=usage.cost_usd if step is not None else span.cost_usd,
    )
    details: dict[str, Any] = {
        "otel_trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id or None,
        "span_name": span.name,
        "span_kind": span.span_kind,
        "span_start_unix_nano": span.began,
        "span_end_unix_nano": span.began + span.duration,
        "service": span.service,
        "status": span.status_code,
        "status_message": span.status_message or None,
        "duration_ms": milliseconds(span.duration),
        "agent_name": span.agent_name or None,
        "llm_model": span.model or None,
        "attributes": msgspec.Raw((span.attributes or "{}").encode()),
        "tenant": tenant,
        "sequence_number": span.sequence_number,
        "ingested_at": span.ingested_at,
    }
    return Entry(
        Cursor(max(0, position), span.sequence_number, span.span_id),
        offset,
        _spliced(moment(span.began), SPAN_EVENT, msgspec.json.encode(details), about),
    )


def _spliced(time: str, event: str, details: bytes, about: _About) -> bytes:
    head = msgspec.json.encode({"time": time, "event": event})[:-1]
    return b'%b,"details":%b,"step":%b}' % (head, details, msgspec.json.encode(about))


def _chains(analysis: Analysis) -> Mapping[int, str]:
    """Return the operation of each step that belongs to a chain, by `id(step)`."""
    found: dict[int, str] = {}
    for chain in analysis.chains:
        name = chain.operation.id
        members: Sequence[RunStep | None] = [chain.operation, *(link.step for link in chain.links)]
        found |= {id(step): name for step in members if step is not None}
    return found
