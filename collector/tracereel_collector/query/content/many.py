"""Content of many steps of a run, read together."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracereel.content import Content
from tracereel_collector.query.content.from_events import content_of_events, decoded
from tracereel_collector.query.content.from_span import content_of_span
from tracereel_collector.query.content.rows import ContentSpan, Place, logs_of, spans_of
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.steps import RunStep

_MAX_EVENTS: Final = 50
"""Events of one step that are read."""


def contents_of(reader: RunReader, tenant: str, steps: Sequence[RunStep]) -> list[Content | None]:
    """Return the content of each step; None for one that has neither events nor a span."""
    numbers: dict[str, list[int]] = {}
    for step in steps:
        for row in step.events[:_MAX_EVENTS]:
            numbers.setdefault(row.trace_id, []).append(row.sequence_number)
    events: dict[str, Mapping[str, Any]] = {}
    for trace_id, wanted in numbers.items():
        for payload in reader.payloads(tenant, trace_id, wanted):
            event = decoded(payload)
            events[str(event.get("event_id"))] = event
    own = [_own(step, events) for step in steps]
    places = {
        place for step, found in zip(steps, own, strict=True) if not found and (place := _of(step))
    }
    spans = {
        place: _of_span(reader, tenant, span)
        for place, span in spans_of(reader.store, tenant, places)
    }
    return [
        content_of_events(step.kind, found) if found else spans.get(_of(step) or ("", ""))
        for step, found in zip(steps, own, strict=True)
    ]


def _own(step: RunStep, events: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    wanted = step.events[:_MAX_EVENTS]
    return [events[row.event_id] for row in wanted if row.event_id in events]


def _of(step: RunStep) -> Place | None:
    return (step.span.trace_id, step.id) if step.span is not None else None


def _of_span(reader: RunReader, tenant: str, span: ContentSpan) -> Content:
    place = (reader.store, tenant, [span.trace_id], span.span_id)
    return content_of_span(span, lambda: logs_of(*place))
