"""Row types of the Jaeger queries."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from tracereel_collector.query.jaeger.values import Types, own_types

NAMELESS = "missing-service-name"
"""Service name that Jaeger uses for spans without one."""
_OTLP, _OPEN = 0, 3
RUNNING, CRASHED = "running", "crashed"
STATE = "tracereel.state"
"""Attribute that marks a span without a known end."""


class JaegerSpanRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_spans.sql`, in column order."""

    trace_id: str
    span_id: str
    parent_span_id: str
    trace_state: str
    name: str
    kind: str
    service: str
    resource: dict[str, str]
    scope: str
    scope_version: str
    attributes: dict[str, str]
    began: int
    took: int
    status: str
    status_message: str
    event_times: list[int]
    event_names: list[str]
    event_attributes: list[dict[str, str]]
    link_traces: list[str]
    link_spans: list[str]
    link_states: list[str]
    link_attributes: list[dict[str, str]]
    types: dict[str, int]
    rank: int
    emitter: str

    @property
    def is_open(self) -> bool:
        """Whether only the start of the span is known."""
        return self.rank == _OPEN

    @property
    def known_types(self) -> Types:
        """Types of the attributes that are not strings."""
        return self.types if self.rank == _OTLP else own_types()

    @property
    def service_shown(self) -> str:
        """Service name, or a placeholder if there is none."""
        return self.service or NAMELESS


class MarkRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_marks.sql`."""

    trace_id: str
    span_id: str
    at: int
    name: str
    attributes: dict[str, str]


class JaegerEmitterRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_emitters.sql`."""

    emitter_id: str
    state: str
    heard: int
    interval_seconds: float
    missing: int
    """Events claimed by the emitter but not stored yet."""

    def is_gone(self, now: int) -> bool:
        """Return whether no more events are expected; same rule as in `gone_emitters.sql`."""
        if self.state == "alive":
            return now > self.heard + 3e9 * self.interval_seconds
        # The final heartbeat may arrive before the last events, which hold the outcome.
        return self.missing <= 0


class OutlineRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_outline.sql`."""

    trace_id: str
    span_id: str
    parent_span_id: str
    service: str
    name: str
    began: int
    took: int
    failed: bool


@dataclass(frozen=True, slots=True)
class JaegerTrace:
    """Spans of one trace, in order of their start."""

    trace_id: str
    spans: list[JaegerSpanRow]
    cut: bool = False
    """Whether spans were left out."""


def put_marks(spans: Iterable[JaegerSpanRow], marks: Iterable[MarkRow]) -> None:
    """Add retries, fallbacks and decisions as span events."""
    by_span: dict[tuple[str, str], list[MarkRow]] = defaultdict(list)
    for mark in marks:
        by_span[mark.trace_id, mark.span_id].append(mark)
    for span in spans:
        # Spans sent by an exporter already have them.
        found = by_span.get((span.trace_id, span.span_id), ()) if span.rank != _OTLP else ()
        for mark in found:
            span.event_times.append(mark.at)
            span.event_names.append(mark.name)
            span.event_attributes.append(mark.attributes)


def tell_open(
    spans: Iterable[JaegerSpanRow], emitters: Iterable[JaegerEmitterRow], *, now: int
) -> None:
    """Mark spans without an end as running, or as crashed if their emitter is gone."""
    known = {each.emitter_id: each for each in emitters}
    for span in spans:
        if not span.is_open:
            continue
        emitter = known.get(span.emitter)
        alive = emitter is None or not emitter.is_gone(now)
        until = now if emitter is None or alive else emitter.heard
        span.took = max(0, until - span.began)
        span.attributes = {**span.attributes, STATE: RUNNING if alive else CRASHED}
        if not alive:
            span.status, span.status_message = "Error", "its program ended before it did"


def drop_made_up_parents(spans: Iterable[JaegerSpanRow]) -> None:
    """Remove inferred parents that are not in the trace."""
    spans = list(spans)
    present = {(span.trace_id, span.span_id) for span in spans}
    for span in spans:
        if span.rank > 1 and (span.trace_id, span.parent_span_id) not in present:
            span.parent_span_id = ""
