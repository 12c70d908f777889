"""Row types of the Jaeger queries, and spans of OTLP requests as such rows."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel_collector.query.jaeger.values import Types, own_types
from tracereel_collector.store.dialects.own import MORE_ATTRIBUTES

NAMELESS = "missing-service-name"
"""Service name that Jaeger uses for spans without one."""
_OTLP, _OPEN = 0, 3
CONTENT_BYTES = MORE_ATTRIBUTES["content_bytes"][0]
"""Attribute of spans whose content is stored apart."""
RUNNING, CRASHED = "running", "crashed"
STATE = "tracereel.state"
"""Attribute that marks a span without a known end."""
KINDS = {"Internal": 1, "Server": 2, "Client": 3, "Producer": 4, "Consumer": 5}
STATUSES = {"Ok": 1, "Error": 2}
"""Names in the store, and numbers of OTLP."""


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
    events: list[tuple[int, str, dict[str, str]]]
    """Time, name and attributes."""
    links: list[tuple[str, str, str, dict[str, str]]]
    """Trace id, span id, trace state and attributes."""
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
    def ordered_events(self) -> list[tuple[int, str, dict[str, str]]]:
        """Span events in order of their time."""
        return sorted(self.events, key=lambda event: event[0])

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


class ContentsRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_contents.sql`."""

    trace_id: str
    span_id: str
    fields: list[tuple[str, str, int]]
    """Name, JSON cut to a limit, and whole length in bytes."""


class OutlineRow(msgspec.Struct, array_like=True, gc=False):
    """Row of `jaeger_outline.sql`."""

    trace_id: str
    span_id: str
    parent_span_id: str
    service: str
    name: str
    began: int
    took: int
    failed: int


@dataclass(frozen=True, slots=True)
class JaegerTrace:
    """Spans of one trace, in order of their start."""

    trace_id: str
    spans: list[JaegerSpanRow]
    cut: bool = False
    """Whether spans were left out."""


def add_span_events(spans: Iterable[JaegerSpanRow], marks: Iterable[MarkRow]) -> None:
    """Add retries, fallbacks and decisions as span events."""
    by_span: dict[tuple[str, str], list[MarkRow]] = defaultdict(list)
    for mark in marks:
        by_span[mark.trace_id, mark.span_id].append(mark)
    for span in spans:
        # Spans sent by an exporter already have them.
        found = by_span.get((span.trace_id, span.span_id), ()) if span.rank != _OTLP else ()
        span.events += [(mark.at, mark.name, mark.attributes) for mark in found]


def add_contents(
    spans: Iterable[JaegerSpanRow], contents: Iterable[ContentsRow], *, most: int
) -> None:
    """Add the content of own spans as attributes; a cut value is marked."""
    by_span = {(each.trace_id, each.span_id): each.fields for each in contents}
    for span in spans:
        for field, value, length in by_span.get((span.trace_id, span.span_id), ()):
            names = MORE_ATTRIBUTES.get(field, ())
            cut = f"… [{length - most} bytes more]" if length > most else ""
            span.attributes |= {name: f"{value}{cut}" for name in names if span.rank != _OTLP}


def mark_open(spans: Iterable[JaegerSpanRow], gone: Mapping[str, int], *, now: int) -> None:
    """Mark spans without an end as running, or as crashed at the last heartbeat of a gone emitter."""
    for span in spans:
        if not span.is_open:
            continue
        span.took = max(0, gone.get(span.emitter, now) - span.began)
        crashed = span.emitter in gone
        span.attributes = {**span.attributes, STATE: CRASHED if crashed else RUNNING}
        if crashed:
            span.status, span.status_message = "Error", "its program ended before it did"


def drop_inferred_parents(spans: Iterable[JaegerSpanRow]) -> None:
    """Remove inferred parents that are not in the trace."""
    spans = list(spans)
    present = {(span.trace_id, span.span_id) for span in spans}
    for span in spans:
        if span.rank > 1 and (span.trace_id, span.parent_span_id) not in present:
            span.parent_span_id = ""


def traces_of(request: Any) -> list[JaegerTrace]:
    """Return the traces of an `ExportTraceServiceRequest`, in order of appearance."""
    found: dict[str, list[JaegerSpanRow]] = {}
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                row = _row(resource.resource, scope.scope, span)
                found.setdefault(row.trace_id, []).append(row)
    return [JaegerTrace(trace_id, spans) for trace_id, spans in found.items()]


def _row(resource: Any, scope: Any, span: Any) -> JaegerSpanRow:
    types: dict[str, int] = {}
    named = _texts(resource.attributes, types)
    return JaegerSpanRow(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex().strip("0") and span.parent_span_id.hex(),
        trace_state=span.trace_state,
        name=span.name,
        kind=_name_of(span.kind, KINDS, "Unspecified"),
        service=named.get("service.name", ""),
        resource=named,
        scope=scope.name,
        scope_version=scope.version,
        attributes=_texts(span.attributes, types),
        began=span.start_time_unix_nano,
        took=max(0, span.end_time_unix_nano - span.start_time_unix_nano),
        status=_name_of(span.status.code, STATUSES, "Unset"),
        status_message=span.status.message,
        events=[
            (each.time_unix_nano, each.name, _texts(each.attributes, types)) for each in span.events
        ],
        links=[_link(each, types) for each in span.links],
        types=types,
        rank=0,
        emitter="",
    )


def _link(link: Any, types: dict[str, int]) -> tuple[str, str, str, dict[str, str]]:
    attributes = _texts(link.attributes, types)
    return link.trace_id.hex(), link.span_id.hex(), link.trace_state, attributes


def _name_of(number: int, names: dict[str, int], default: str) -> str:
    return next((name for name, each in names.items() if each == number), default)


def _texts(attributes: Iterable[Any], types: dict[str, int]) -> dict[str, str]:
    """Return attributes as text, as the store has them, and note their types."""
    found = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        if kind is not None:
            types[each.key] = each.value.DESCRIPTOR.fields_by_name[kind].number
        plain = _plain(each.value)
        text = plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))
        found[each.key] = "" if plain is None else text
    return found


def _plain(value: Any) -> Any:
    """Return a value in JSON form."""
    kind = value.WhichOneof("value")
    inner: Any = getattr(value, kind) if kind is not None else None
    if kind == "array_value":
        return [_plain(each) for each in inner.values]
    if kind == "kvlist_value":
        return {each.key: _plain(each.value) for each in inner.values}
    return base64.b64encode(inner).decode() if kind == "bytes_value" else inner
