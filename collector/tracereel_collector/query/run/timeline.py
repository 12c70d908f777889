"""Timeline of a run: events, spans and span events as encoded entries, in order."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.model import SPAN_EVENT, SPAN_MARK
from tracereel_collector.query.run.analysis import NOTHING, Analysis, StepUsage
from tracereel_collector.query.run.events import EventRow, with_fields
from tracereel_collector.query.run.order import time_of
from tracereel_collector.query.run.positions import Cursor
from tracereel_collector.query.run.rows import SpanEventRow, SpanRow
from tracereel_collector.query.run.serialize import attributes_of, milliseconds, moment
from tracereel_collector.query.run.steps import MILLI, RunStep

_MICRO = 1_000


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
    """Return all events and spans as they happened, without tape parts."""
    run = analysis.run
    origin = run.began
    chains = _chains(analysis)
    found: list[Entry] = []
    for step in run.steps:
        usage = analysis.totals[id(step)]
        chain = chains.get(id(step), "")
        found += [
            event_entry(
                row,
                tenant=tenant,
                origin=origin,
                step=step,
                usage=usage,
                chain=chain,
                outcome=analysis.outcomes.get(id(row)),
            )
            for row in step.events
            if row.event_type != TAPE_RECORDED
        ]
        if step.source == "otlp" and step.span is not None:
            found.append(
                span_entry(
                    step.span, step.cursor, tenant=tenant, origin=origin, step=step, usage=usage
                )
            )
        found += [
            span_event_entry(each.row, each.cursor, tenant=tenant, origin=origin, step=step)
            for each in step.span_events
        ]
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
    outcome: Mapping[str, Any] | None = None,
) -> Entry:
    """Return an event entry; its payload is spliced in unchanged, but for a later known outcome."""
    closes = step is not None and step.closing is row
    offset = _exact_time(row, step) + (step.shift if step is not None else 0) - origin
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
    payload = row.payload
    if payload and outcome is not None:
        payload = with_fields(payload, outcome)
    details = stored_payload(payload, tenant, row.sequence_number, row.ingested_at)
    return Entry(
        Cursor(row.hlc, row.sequence_number),
        offset / MILLI,
        _spliced(row.time, row.event_type, details, about),
    )


def _exact_time(row: EventRow, step: RunStep | None) -> int:
    """Return the time of an event; start and end of a span are known to the nanosecond."""
    if step is not None and (row is step.opening or row is step.closing):
        exact = step.start if row is step.opening else step.end or 0
        if 0 <= exact - row.unix_nano < _MICRO:
            return exact
    return time_of(row)


def span_entry(
    span: SpanRow,
    cursor: Cursor,
    *,
    tenant: str,
    origin: int,
    step: RunStep | None = None,
    usage: StepUsage = NOTHING,
) -> Entry:
    """Return a span entry, placed at the start of the span."""
    shift = step.shift if step is not None else 0
    offset = (span.began + shift - origin) / MILLI
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
        cursor,
        offset,
        _spliced(moment(span.began), SPAN_EVENT, msgspec.json.encode(details), about),
    )


def span_event_entry(
    row: SpanEventRow, cursor: Cursor, *, tenant: str, origin: int, step: RunStep | None = None
) -> Entry:
    """Return the entry of an event that the program added to a span."""
    offset = (row.time + (step.shift if step is not None else 0) - origin) / MILLI
    about = _About(
        id=row.span_id,
        parent_id=step.parent.id if step is not None and step.parent is not None else "",
        kind=step.kind if step is not None else "span",
        agent=step.agent if step is not None else "",
        offset_ms=offset,
    )
    details = {
        "name": row.name,
        "attributes": attributes_of(row),
        "otel_trace_id": row.trace_id,
        "span_id": row.span_id,
        "time_unix_nano": row.time,
        "tenant": tenant,
        "sequence_number": row.sequence_number,
        "ingested_at": row.ingested_at,
    }
    data = _spliced(moment(row.time), SPAN_MARK, msgspec.json.encode(details), about)
    return Entry(cursor, offset, data)


def stored_payload(payload: str, tenant: str, number: int, ingested_at: str) -> bytes:
    """Return an event as sent, with the fields that the collector adds."""
    added = {"tenant": tenant, "sequence_number": number, "ingested_at": ingested_at}
    return payload.encode().rstrip()[:-1] + b"," + msgspec.json.encode(added)[1:]


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
