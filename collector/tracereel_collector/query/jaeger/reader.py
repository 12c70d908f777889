"""Asks the store what Jaeger's APIs want to know; every question is one tenant's and has its limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import Template
from typing import Any, Protocol, TypeVar

import msgspec

from tracereel_collector.query.jaeger.ids import otel_id
from tracereel_collector.query.jaeger.rows import (
    NAMELESS,
    EmitterRow,
    MarkRow,
    OutlineRow,
    SpanRow,
    Trace,
    drop_made_up_parents,
    put_marks,
    tell_open,
)
from tracereel_collector.query.jaeger.tags import event_tags, span_tags, tag_parameters
from tracereel_collector.store.sql import query

MAX_NAMES = 10_000
MAX_TRACES = 1_500
MAX_SPANS = 50_000
"""Most spans in one answer."""
MAX_MIXED_TRACES = 200_000
MAX_SPANS_OF_TRACE = 20_000
"""Most spans of one trace that are looked at for who calls whom."""
MAX_NANO = 2**63 - 1
_FOUND = msgspec.json.Decoder(tuple[str, int], strict=False)
Row = TypeVar("Row")


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Conditions that one span of a trace must meet together; times in nanoseconds."""

    service: str = ""
    operation: str = ""
    start: int
    end: int
    min_duration: int = 0
    max_duration: int = 0
    tags: Mapping[str, str]
    limit: int

    def parameters(self) -> dict[str, Any]:
        """As the query wants them; ends that no clock can show are the ends of time."""
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
    """Answers both of Jaeger's query APIs."""

    store: Selects
    now_unix_nano: Callable[[], int]

    def services(self, tenant: str) -> list[str]:
        """The names of services, in order."""
        rows = self._rows("jaeger_services", tuple[str], tenant, nameless=NAMELESS, limit=MAX_NAMES)
        return [name for (name,) in rows]

    def operations(self, tenant: str, *services: str, kind: str = "") -> list[tuple[str, str]]:
        """Names and kinds of what services do; the kind in OpenTelemetry's word, or ''."""
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

    def find(self, tenant: str, search: Search) -> list[str]:
        """The ids of traces that match, the newest first."""
        statement = Template(query("jaeger_find")).substitute(
            span_tags=span_tags(search.tags), event_tags=event_tags(search.tags)
        )
        answer = self.store.select(
            statement, {"tenant": tenant, **search.parameters()}, fmt="JSONCompactEachRow"
        )
        return [trace_id for trace_id, _ in _FOUND.decode_lines(answer)]

    def resolve(self, tenant: str, given: str) -> list[str]:
        """The OpenTelemetry traces that an id may mean: of its own form, or of the run it names."""
        found = otel_id(given)
        if found is not None and len(given) in (16, 32):
            return [found]
        named = [each for (each,) in self._rows("jaeger_run", tuple[str], tenant, run=given)]
        return list(dict.fromkeys([found, *named] if found is not None else named))

    def traces(self, tenant: str, trace_ids: Sequence[str]) -> list[Trace]:
        """The traces that exist, in the order asked for, none of them empty."""
        if not trace_ids:
            return []
        wanted = {"traces": list(trace_ids), "limit": MAX_SPANS + 1}
        spans = self._rows("jaeger_spans", SpanRow, tenant, **wanted)
        cut = spans[MAX_SPANS:]
        del spans[MAX_SPANS:]
        put_marks(spans, self._rows("jaeger_marks", MarkRow, tenant, **wanted))
        emitters = sorted({span.emitter for span in spans if span.is_open and span.emitter})
        heard = (
            self._rows("jaeger_emitters", EmitterRow, tenant, emitters=emitters) if emitters else []
        )
        tell_open(spans, heard, now=self.now_unix_nano())
        if not cut:
            drop_made_up_parents(spans)
        # Where spans are missing, it is of the last trace that has any, and of those after it.
        last = spans[-1].trace_id if cut else None
        found = {
            trace_id: Trace(trace_id, list(group), cut=trace_id == last)
            for trace_id, group in groupby(spans, key=lambda span: span.trace_id)
        }
        return [found[each] for each in dict.fromkeys(trace_ids) if each in found]

    def outlines(self, tenant: str, trace_ids: Sequence[str]) -> list[list[OutlineRow]]:
        """The spans of traces without what is on them."""
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
        """Caller, called, and how often."""
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


def within(trace: Trace, start: int | None, end: int | None) -> bool:
    """Whether any span of a trace lies, with a part of it, between two moments."""
    spans: Iterable[SpanRow] = trace.spans
    return any(
        (start is None or span.began + span.took >= start) and (end is None or span.began <= end)
        for span in spans
    )
