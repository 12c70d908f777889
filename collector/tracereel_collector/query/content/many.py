"""Content of many steps of a run, read together."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tracereel._runtime.clock import otel_trace_id
from tracereel.content import Content
from tracereel_collector.query.content.from_events import content_of_events
from tracereel_collector.query.content.from_span import content_of_span
from tracereel_collector.query.content.rows import logs_of, span_of
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.steps import RunStep

_MAX_EVENTS: Final = 50
"""Events of one step that are read."""
_MODELS: Final = ("llm", "span")


def contents_of(reader: RunReader, tenant: str, steps: Sequence[RunStep]) -> list[Content | None]:
    """Return the content of each step; None for one that has neither events nor a model's span."""
    numbers: dict[str, list[int]] = {}
    for step in steps:
        for row in step.events[:_MAX_EVENTS]:
            numbers.setdefault(row.trace_id, []).append(row.sequence_number)
    events: dict[str, Mapping[str, Any]] = {}
    for trace_id, wanted in numbers.items():
        for payload in reader.payloads(tenant, trace_id, wanted):
            event = _decoded(payload)
            events[str(event.get("event_id"))] = event
    return [_content(reader, tenant, step, events) for step in steps]


def _content(
    reader: RunReader, tenant: str, step: RunStep, events: Mapping[str, Mapping[str, Any]]
) -> Content | None:
    own = [events[row.event_id] for row in step.events[:_MAX_EVENTS] if row.event_id in events]
    if own:
        return content_of_events(step.kind, own)
    if step.span is None or step.kind not in _MODELS:
        return None
    traces = sorted({step.span.trace_id, otel_trace_id(step.trace_id)})
    span = span_of(reader.store, tenant, traces, step.id)
    if span is None:
        return None
    return content_of_span(span, lambda: logs_of(reader.store, tenant, traces, step.id))


def _decoded(payload: str) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
