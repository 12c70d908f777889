"""Store queries behind Jaeger's APIs; each is limited to one tenant and in size."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import Template
from typing import Any, TypeVar

import msgspec

from tracereel_collector.query.jaeger.ids import otel_id
from tracereel_collector.query.jaeger.rows import (
    NAMELESS,
    JaegerEmitterRow,
    JaegerSpanRow,
    JaegerTrace,
    MarkRow,
    OutlineRow,
    drop_made_up_parents,
    put_marks,
    tell_open,
)
from tracereel_collector.query.jaeger.tags import event_tags, span_tags, tag_parameters
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query

MAX_NAMES = 10_000
MAX_TRACES = 1_500
MAX_SPANS = 50_000
"""Maximum spans in one response."""
MAX_MIXED_TRACES = 200_000
MAX_SPANS_OF_TRACE = 20_000
"""Maximum spans of one trace that are read for the dependency graph."""
MAX_NANO = 2**63 - 1
_FOUND = msgspec.json.Decoder(tuple[str, int], strict=False)
Row = TypeVar("Row")


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
            **tag_parameters(self.tags),
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
        if kind and kind.capitalize() not in _KINDS:
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
        answer = self.store.select(
            statement, {"tenant": tenant, **search.parameters()}, fmt="JSONCompactEachRow"
        )
        return [trace_id for trace_id, _ in _FOUND.decode_lines(answer)]

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
        put_marks(spans, self._rows("jaeger_marks", MarkRow, tenant, **wanted))
        emitters = sorted({span.emitter for span in spans if span.is_open and span.emitter})
        heard = (
            self._rows("jaeger_emitters", JaegerEmitterRow, tenant, emitters=emitters)
            if emitters
            else []
        )
        tell_open(spans, heard, now=self.now_unix_nano())
        if not cut:
            drop_made_up_parents(spans)
        # If spans were cut off, the last trace is incomplete and those after it are missing.
        last = spans[-1].trace_id if cut else None
        found = {
            trace_id: JaegerTrace(trace_id, list(group), cut=trace_id == last)
            for trace_id, group in groupby(spans, key=lambda span: span.trace_id)
        }
        return [found[each] for each in dict.fromkeys(trace_ids) if each in found]

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
        answer = self.store.select(
            query(name), {"tenant": tenant, **parameters}, fmt="JSONCompactEachRow"
        )
        return msgspec.json.Decoder(row, strict=False).decode_lines(answer)


_KINDS = frozenset({"Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"})


def within(trace: JaegerTrace, start: int | None, end: int | None) -> bool:
    """Return whether any span of a trace overlaps a time range."""
    spans: Iterable[JaegerSpanRow] = trace.spans
    return any(
        (start is None or span.began + span.took >= start) and (end is None or span.began <= end)
        for span in spans
    )
