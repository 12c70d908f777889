"""Store queries behind Jaeger's APIs; each is limited to one tenant and in size.

Tags are searched with bound names and values. Attributes of own spans are built from events, which is
expensive, so a cheap text search in the event comes first.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import Template
from typing import Any, Final

from tracereel import semconv
from tracereel_collector.query.emitters import gone_emitters
from tracereel_collector.query.jaeger.rows import (
    CONTENT_BYTES,
    KINDS,
    NAMELESS,
    ContentsRow,
    JaegerSpanRow,
    JaegerTrace,
    MarkRow,
    OutlineRow,
    add_contents,
    add_span_events,
    drop_inferred_parents,
    mark_open,
)
from tracereel_collector.query.store_reader import Row, StoreReader, read_rows
from tracereel_collector.store.dialects.own import attributes_with
from tracereel_collector.store.sql import query

MAX_NAMES = 10_000
MAX_TRACES = 1_500
MAX_SPANS = 50_000
"""Maximum spans in one response."""
MAX_MIXED_TRACES = 200_000
MAX_SPANS_OF_TRACE = 20_000
"""Maximum spans of one trace that are read for the dependency graph."""
MAX_CONTENT = 65_536
"""Maximum bytes of one content attribute."""
MAX_CONTENTS = 500
"""Maximum spans of one response that have large content."""
MAX_NANO = 2**63 - 1
_HEX = re.compile(r"[0-9a-fA-F]{1,32}")
_LONGEST_BASE64 = 24
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.: -]+")
"""Values that JSON does not escape."""
# Jaeger tags that are stored in columns.
_OF_ALL: Final = {
    "error": "({value} = 'true' AND StatusCode = 'Error')",
    "span.kind": "{value} = lower(SpanKind)",
    "otel.status_code": "{value} = upper(StatusCode)",
    "otel.status_description": "{value} = StatusMessage",
}
_OF_SPANS: Final = {
    **_OF_ALL,
    "otel.scope.name": "{value} = ScopeName",
    "otel.library.name": "{value} = ScopeName",
    "otel.scope.version": "{value} = ScopeVersion",
    "otel.library.version": "{value} = ScopeVersion",
    "w3c.tracestate": "{value} = TraceState",
}
_OF_EVENTS: Final = {**_OF_ALL, "service.name": "{value} = ServiceName"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JaegerSearch:
    """Conditions that a single span of a trace must meet; times in nanoseconds."""

    service: str = ""
    operation: str = ""
    start: int
    end: int
    min_duration: int = 0
    max_duration: int = 0
    tags: Mapping[str, str]
    limit: int

    def parameters(self) -> dict[str, Any]:
        """Return the query parameters; times are clamped to the valid range."""
        return {
            "any_service": int(not self.service),
            "service": "" if self.service == NAMELESS else self.service,
            "operation": self.operation,
            "start": max(0, min(self.start, MAX_NANO)),
            "end": max(0, min(self.end, MAX_NANO)),
            "min_duration": max(0, min(self.min_duration, MAX_NANO)),
            "max_duration": self.max_duration if 0 < self.max_duration < MAX_NANO else MAX_NANO,
            "by_duration": int(self.min_duration > 0 or self.max_duration > 0),
            "limit": min(self.limit, MAX_TRACES),
            **{f"tag_{number}": key for number, key in enumerate(self.tags)},
            **{f"value_{number}": value for number, value in enumerate(self.tags.values())},
        }


@dataclass(frozen=True, slots=True)
class Jaeger:
    """Queries of both Jaeger APIs."""

    store: StoreReader
    now_unix_nano: Callable[[], int]

    def services(self, tenant: str) -> list[str]:
        """Return the service names, sorted."""
        rows = self._rows("jaeger_services", tuple[str], tenant, nameless=NAMELESS, limit=MAX_NAMES)
        return [name for (name,) in rows]

    def operations(self, tenant: str, *services: str, kind: str = "") -> list[tuple[str, str]]:
        """Return operation names and span kinds of services; the kind is lower case, or empty."""
        wanted = ["" if name == NAMELESS else name for name in services]
        if kind and kind.capitalize() not in {"Unspecified", *KINDS}:
            return []
        rows = self._rows(
            *("jaeger_operations", tuple[str, str], tenant),
            services=wanted,
            kind=kind.capitalize(),
            limit=MAX_NAMES,
        )
        return [(name, "" if found == "Unspecified" else found.lower()) for name, found in rows]

    def find(self, tenant: str, search: JaegerSearch) -> list[str]:
        """Return the ids of matching traces, newest first."""
        statement = Template(query("jaeger_find")).substitute(
            span_tags=span_tags(search.tags), event_tags=event_tags(search.tags)
        )
        given = {"tenant": tenant, **search.parameters()}
        return [
            trace_id for trace_id, _ in read_rows(self.store, statement, tuple[str, int], **given)
        ]

    def resolve(self, tenant: str, given: str) -> list[str]:
        """Return the OpenTelemetry trace ids for a trace id or run id."""
        found = otel_id(given)
        if found is not None and len(given) in (16, 32):
            return [found]
        named = [each for (each,) in self._rows("jaeger_run", tuple[str], tenant, run=given)]
        return list(dict.fromkeys([found, *named] if found is not None else named))

    def traces(self, tenant: str, trace_ids: Sequence[str]) -> list[JaegerTrace]:
        """Return the existing traces in the requested order."""
        if not trace_ids:
            return []
        wanted = {"traces": list(trace_ids), "limit": MAX_SPANS + 1}
        spans = self._rows("jaeger_spans", JaegerSpanRow, tenant, **wanted)
        cut = spans[MAX_SPANS:]
        del spans[MAX_SPANS:]
        add_span_events(spans, self._rows("jaeger_marks", MarkRow, tenant, **wanted))
        self._add_contents(tenant, spans)
        emitters = sorted({span.emitter for span in spans if span.is_open and span.emitter})
        now = self.now_unix_nano()
        mark_open(spans, gone_emitters(self.store, tenant, emitters, now_unix_nano=now), now=now)
        if not cut:
            drop_inferred_parents(spans)
        # If spans were cut off, the last trace is incomplete and those after it are missing.
        last = spans[-1].trace_id if cut else None
        found = {
            trace_id: JaegerTrace(trace_id, list(group), cut=trace_id == last)
            for trace_id, group in groupby(spans, key=lambda span: span.trace_id)
        }
        return [found[each] for each in dict.fromkeys(trace_ids) if each in found]

    def _add_contents(self, tenant: str, spans: Sequence[JaegerSpanRow]) -> None:
        """Add content that is stored apart from its event, long values cut."""
        traces = sorted({each.trace_id for each in spans if CONTENT_BYTES in each.attributes})
        if traces:
            found = self._rows(
                *("jaeger_contents", ContentsRow, tenant),
                traces=traces,
                most=MAX_CONTENT,
                limit=MAX_CONTENTS,
            )
            add_contents(spans, found, most=MAX_CONTENT)

    def outlines(self, tenant: str, trace_ids: Sequence[str]) -> list[list[OutlineRow]]:
        """Return the spans of traces without attributes, events and links."""
        if not trace_ids:
            return []
        rows = self._rows(
            *("jaeger_outline", OutlineRow, tenant), traces=list(trace_ids), limit=10 * MAX_SPANS
        )
        found = {
            trace_id: list(group)
            for trace_id, group in groupby(rows, key=lambda each: each.trace_id)
        }
        return [found[each] for each in trace_ids if each in found]

    def dependencies(self, tenant: str, *, start: int, end: int) -> list[tuple[str, str, int]]:
        """Return caller, callee and number of calls."""
        return self._rows(
            *("jaeger_dependencies", tuple[str, str, int], tenant),
            start=max(0, min(start, MAX_NANO)),
            end=max(0, min(end, MAX_NANO)),
            nameless=NAMELESS,
            traces=MAX_MIXED_TRACES,
            spans=MAX_SPANS_OF_TRACE,
            limit=MAX_NAMES,
        )

    def _rows(self, name: str, row: type[Row], tenant: str, /, **parameters: Any) -> list[Row]:
        return read_rows(self.store, query(name), row, tenant=tenant, **parameters)


def within(trace: JaegerTrace, start: int | None, end: int | None) -> bool:
    """Return whether any span of a trace overlaps a time range."""
    return any(
        (start is None or span.began + span.took >= start) and (end is None or span.began <= end)
        for span in trace.spans
    )


def otel_id(given: str) -> str | None:
    """Return an id as 32 hexadecimal digits; `None` for ids of runs.

    Leading zeros are optional. Base64 of either alphabet is accepted, as in Jaeger since 2.20.
    """
    if _HEX.fullmatch(given):
        return given.lower().rjust(32, "0")
    if len(given) <= _LONGEST_BASE64:
        padded = given.rstrip("=") + "=" * (-len(given.rstrip("=")) % 4)
        try:
            data = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(data) in (8, 16):
            return data.hex().rjust(32, "0")
    return None


def span_tags(tags: Mapping[str, str]) -> str:
    """Return the condition on rows of `whole_spans`; resource and span events count too."""
    held = []
    for number, (key, value) in enumerate(tags.items()):
        inside = _entry("m", number, value)
        ways = [
            _entry(attributes_with(value), number, value),
            _entry("ResourceAttributes", number, value),
            f"arrayExists(m -> {inside}, `Events.Attributes`)",
        ]
        held.append(_any(ways, _OF_SPANS.get(key), number))
        if _is_written(key, value):
            held.append(f"(Told = '' OR {_in_event(number)})")
    return " AND ".join(held) or "1"


def event_tags(tags: Mapping[str, str]) -> str:
    """Return the condition on rows of `untold_spans`."""
    held = []
    for number, (key, value) in enumerate(tags.items()):
        held.append(_any([_entry("SpanAttributes", number, value)], _OF_EVENTS.get(key), number))
        if _is_written(key, value):
            held.append(_in_event(number))
    return " AND ".join(held) or "1"


def _is_written(key: str, value: str) -> bool:
    """Return whether an event with this attribute contains the value verbatim."""
    derived = key in _OF_SPANS or key in _OF_EVENTS or key == semconv.OPERATION
    return not derived and _PLAIN.fullmatch(value) is not None


def _in_event(number: int) -> str:
    return f"position(Told, {{value_{number}:String}}) > 0"


def _entry(attributes: str, number: int, value: str) -> str:
    held = f"{attributes}[{{tag_{number}:String}}] = {{value_{number}:String}}"
    # A missing map entry reads as an empty string.
    return held if value else f"(mapContains({attributes}, {{tag_{number}:String}}) AND {held})"


def _any(ways: list[str], column: str | None, number: int) -> str:
    named = [column.format(value=f"{{value_{number}:String}}")] if column is not None else []
    return f"({' OR '.join([*named, *ways])})"
