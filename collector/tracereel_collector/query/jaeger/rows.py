"""Spans as the queries give them, and what their columns mean."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from tracereel_collector.query.jaeger.values import Types, own_types

NAMELESS = "missing-service-name"
"""The service that Jaeger gives to spans whose resource names none."""
_OTLP, _OPEN = 0, 3
RUNNING, CRASHED = "running", "crashed"
STATE = "tracereel.state"
"""The attribute that tells of a span which has only begun."""


class SpanRow(msgspec.Struct, array_like=True, gc=False):
    """One line of `jaeger_spans.sql`, in its order of columns."""

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
        """Whether it is known to have begun, and no more."""
        return self.rank == _OPEN

    @property
    def known_types(self) -> Types:
        """Of its attributes that are no text."""
        return self.types if self.rank == _OTLP else own_types()

    @property
    def service_shown(self) -> str:
        """The service, or what stands for none."""
        return self.service or NAMELESS


class MarkRow(msgspec.Struct, array_like=True, gc=False):
    """One line of `jaeger_marks.sql`."""

    trace_id: str
    span_id: str
    at: int
    name: str
    attributes: dict[str, str]


class EmitterRow(msgspec.Struct, array_like=True, gc=False):
    """One line of `jaeger_emitters.sql`."""

    emitter_id: str
    state: str
    heard: int
    interval_seconds: float
    missing: int
    """Events that it claims and that are not stored yet."""

    def is_gone(self, now: int) -> bool:
        """Whether nothing more is to come of it: as `gone_emitters.sql` has it for lists of runs."""
        if self.state == "alive":
            return now > self.heard + 3e9 * self.interval_seconds
        # A goodbye may overtake the last events, which say how it all ended.
        return self.missing <= 0


class OutlineRow(msgspec.Struct, array_like=True, gc=False):
    """One line of `jaeger_outline.sql`."""

    trace_id: str
    span_id: str
    parent_span_id: str
    service: str
    name: str
    began: int
    took: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one trace, in the order they began."""

    trace_id: str
    spans: list[SpanRow]
    cut: bool = False
    """Whether it has more than are given out."""


def put_marks(spans: Iterable[SpanRow], marks: Iterable[MarkRow]) -> None:
    """Show retries, fallbacks and decisions on the spans they happened in."""
    by_span: dict[tuple[str, str], list[MarkRow]] = defaultdict(list)
    for mark in marks:
        by_span[mark.trace_id, mark.span_id].append(mark)
    for span in spans:
        # A span that its exporter sent has them already.
        found = by_span.get((span.trace_id, span.span_id), ()) if span.rank != _OTLP else ()
        for mark in found:
            span.event_times.append(mark.at)
            span.event_names.append(mark.name)
            span.event_attributes.append(mark.attributes)


def tell_open(spans: Iterable[SpanRow], emitters: Iterable[EmitterRow], *, now: int) -> None:
    """Show spans that have only begun as running, or as crashed where their emitter is gone."""
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


def drop_made_up_parents(spans: Iterable[SpanRow]) -> None:
    """A parent that was only supposed, and is not in the trace, is none."""
    spans = list(spans)
    present = {(span.trace_id, span.span_id) for span in spans}
    for span in spans:
        if span.rank > 1 and (span.trace_id, span.parent_span_id) not in present:
            span.parent_span_id = ""
