"""Last question and answer of runs that are known from spans only, for lists."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from tracereel.content import Content, ModelCallContent, ValueContent, answered, asked
from tracereel_collector.query.content.from_span import content_of_span
from tracereel_collector.query.content.rows import ContentLog, ContentSpan, Place
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.rollups import MAX_PROMPT
from tracereel_collector.store.sql import query

MAX_RUNS: Final = 100
"""Runs of one request."""
_AT_ONCE: Final = 50
_MAX_SPAN: Final = 256 * 1024
"""Most bytes that are read of a span."""
_LONGEST: Final = 64 * 1024
_ELEMENTS: Final = 4
"""Last elements that are read of a list that is longer."""


_LOGS: Final = 40
"""Last log records that are read of a span."""


class _AskedLog(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `asked_logs.sql`."""

    trace_id: str
    span_id: str
    name: str
    body: str
    attributes: dict[str, str]


class _AskedSpans(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `asked_spans.sql`."""

    trace_id: str
    outermost: str
    agents: list[str]
    first_call: str
    last_call: str


@dataclass(frozen=True, slots=True)
class Said:
    """Last question and answer, at most 300 characters each; None if no span has it."""

    asked: str | None = None
    answered: str | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """Query of `GET /v1/asked`."""

    store: StoreReader

    def document(self, tenant: str, traces: Sequence[str]) -> bytes:
        """Return question and answer of OpenTelemetry traces as JSON."""
        found = self.of(tenant, traces)
        return msgspec.json.encode(
            {
                "runs": [
                    {"trace_id": trace, "asked": said.asked, "answered": said.answered}
                    for trace, said in found.items()
                ]
            }
        )

    def of(self, tenant: str, traces: Iterable[str]) -> dict[str, Said]:
        """Return question and answer by OpenTelemetry trace; traces without spans are left out."""
        found: dict[str, Said] = {}
        wanted = list(dict.fromkeys(traces))
        for start in range(0, len(wanted), _AT_ONCE):
            found |= self._some(tenant, wanted[start : start + _AT_ONCE])
        return found

    def _some(self, tenant: str, traces: Sequence[str]) -> dict[str, Said]:
        spans = read_rows(
            self.store, query("asked_spans"), _AskedSpans, tenant=tenant, traces=traces
        )
        # Most runs have it in the outermost span or the agent; the calls inside repeat it at length.
        contents = self.contents(
            tenant, ((row.trace_id, each) for row in spans for each in (row.outermost, *row.agents))
        )
        found = {row.trace_id: _said(row, contents) for row in spans}
        lacking = [row for row in spans if None in _both(found[row.trace_id])]
        calls = {
            (row.trace_id, each) for row in lacking for each in (row.first_call, row.last_call)
        }
        contents |= self.contents(tenant, calls)
        found |= {row.trace_id: _said(row, contents) for row in lacking}
        lacking = [row for row in lacking if None in _both(found[row.trace_id])]
        logged = {
            (row.trace_id, each) for row in lacking for each in (row.first_call, row.last_call)
        }
        contents |= self.contents(tenant, logged, with_logs=True)
        return found | {row.trace_id: _said(row, contents) for row in lacking}

    def contents(
        self, tenant: str, wanted: Iterable[Place], *, with_logs: bool = False
    ) -> dict[Place, Content]:
        """Return the content of spans, of long lists of messages only the end."""
        places = {place for place in wanted if place[1]}
        if not places:
            return {}
        asked_of = {
            "tenant": tenant,
            "traces": sorted({trace for trace, _ in places}),
            "spans": sorted({span for _, span in places}),
            "longest": _LONGEST,
        }
        rows = read_rows(
            *(self.store, query("asked_contents"), ContentSpan),
            **asked_of,
            most=_MAX_SPAN,
            elements=_ELEMENTS,
        )
        logs = self._logs(asked_of) if with_logs else {}
        return {
            place: content_of_span(row, partial(_logged, logs, place))
            for row in rows
            if (place := (row.trace_id, row.span_id)) in places
        }

    def _logs(self, asked_of: Mapping[str, Any]) -> dict[Place, list[ContentLog]]:
        found: dict[Place, list[ContentLog]] = {}
        rows = read_rows(self.store, query("asked_logs"), _AskedLog, **asked_of, elements=_LOGS)
        for row in reversed(rows):
            log = ContentLog(row.name, row.body, row.attributes)
            found.setdefault((row.trace_id, row.span_id), []).append(log)
        return found


def _logged(logs: Mapping[Place, list[ContentLog]], place: Place) -> Sequence[ContentLog]:
    return logs.get(place, ())


def _both(said: Said) -> tuple[str | None, str | None]:
    return said.asked, said.answered


def _said(row: _AskedSpans, contents: Mapping[Place, Content]) -> Said:
    def first(spans: Sequence[str], side: int) -> str | None:
        known = (contents.get((row.trace_id, span)) for span in spans)
        return next((said for each in known if (said := _side(each, side))), None)

    return Said(
        first((row.outermost, *row.agents, row.first_call), 0),
        first((row.outermost, *row.agents, row.last_call), 1),
    )


def _side(content: Content | None, side: int) -> str | None:
    """Return the question (0) or the answer (1) of a step."""
    said: str | None = None
    if isinstance(content, ValueContent):
        said = (content.asked, content.answered)[side]
    elif isinstance(content, ModelCallContent):
        messages = (content.input, content.output)[side]
        listed = [each.model_dump(exclude_none=True) for each in messages]
        said = (asked, answered)[side](listed) if listed else None
    return said[:MAX_PROMPT] if said else None
