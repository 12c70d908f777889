"""Replay of a run: every event and span in order, as sent, with a summary."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec

from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.run.chains import chains_of
from tracereel_collector.query.run.events import fill_sessions
from tracereel_collector.query.run.order import time_of
from tracereel_collector.query.run.outcomes import (
    has_no_plan,
    is_undecided,
    outcomes_of,
    sequence_of,
)
from tracereel_collector.query.run.positions import (
    BEFORE_SPANS,
    BEGINNING,
    Cursor,
    place_key,
    span_place,
)
from tracereel_collector.query.run.rows import (
    Counts,
    EventRow,
    RunReader,
    SpanEventRow,
    SpanRow,
    SpanTotals,
)
from tracereel_collector.query.run.serialize import shown_chains
from tracereel_collector.query.run.steps import MILLI
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.timeline import (
    Entry,
    event_entry,
    span_entry,
    span_event_entry,
    timeline_of,
)
from tracereel_collector.query.run.tree import build
from tracereel_collector.query.search import Search
from tracereel_collector.query.state_at import MomentOfRun, state_at
from tracereel_collector.query.trace import Traces

MAX_PAGE = 5_000
"""Maximum entries of one page."""
WHOLE_EVENTS = 2_000
"""Maximum events of a run that is analysed whole; larger runs are read by page."""
MAX_AHEAD = 2_000
"""Maximum events of attempts after a page that are searched for its outcomes."""

_TRACE_ID = re.compile(TRACE_ID_PATTERN)
_CURSOR = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:-([0-9a-f]{17,40}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries of a run and the position of the next page."""

    trace_id: str
    entries: Sequence[Entry]
    next: Cursor | None
    """Start of the next page; `None` if this is the last."""
    summary: dict[str, Any]
    chains: Sequence[dict[str, Any]] = ()

    def document(self) -> bytes:
        """Return the page as JSON: `trace_id`, `timeline`, `summary`, then `chains` and `next`."""
        return b'{"trace_id":%b,"timeline":[%b],"summary":%b,"chains":%b,"next":%b}' % (
            msgspec.json.encode(self.trace_id),
            b",".join(entry.data for entry in self.entries),
            msgspec.json.encode(self.summary),
            msgspec.json.encode(self.chains),
            msgspec.json.encode(None if self.next is None else str(self.next)),
        )


@dataclass(frozen=True, slots=True)
class ReplayQuery:
    """Query of `GET /v1/replay/{trace_id}`."""

    reader: RunReader
    traces: Traces
    search: Search

    def document(
        self,
        tenant: str,
        trace_id: str,
        *,
        linked: bool = True,
        content: bool = True,
        attempts: bool = False,
    ) -> bytes:
        """Return the whole run as JSON; `attempts` as in the tree, `content` as in `RunReader.read`."""
        given = {"linked": linked, "content": content, "attempts": attempts}
        return self._whole(tenant, trace_id, after=BEGINNING, limit=None, **given).document()

    def page(
        self,
        tenant: str,
        trace_id: str,
        *,
        after: Cursor,
        limit: int,
        linked: bool = True,
        content: bool = True,
        attempts: bool = False,
    ) -> Page:
        """Return the entries after a position; for a large run, only these are read."""
        counts, trace_ids = self.reader.counts(tenant, trace_id, linked=linked)
        if counts.total_events <= WHOLE_EVENTS:
            given: dict[str, Any] = {"linked": linked, "content": content, "attempts": attempts}
            return self._whole(tenant, trace_id, after=after, limit=limit, **given)
        traces = sorted(set(counts.otel_trace_ids) - {""})
        events, spans, span_events, span_counts = self.reader.page(
            tenant, trace_ids, traces, after=after, limit=limit + 1, content=content
        )
        fill_sessions(events, counts.sessions)
        outcomes = self._outcomes(tenant, trace_ids, events)
        outcomes |= self._sequences(tenant, trace_ids, events)
        entries: list[Entry] = []
        last = Cursor(after.position, after.number)
        given = {"tenant": tenant, "origin": counts.began}
        merged = _merged(events, spans, span_events, after=after)
        for row, time in merged[:limit]:
            if isinstance(row, SpanRow):
                cursor = Cursor(last.position, last.number, place_key(time, row.span_id))
                entries.append(span_entry(row, cursor, **given))
            elif isinstance(row, SpanEventRow):
                key = place_key(time, row.span_id, row.number)
                cursor = Cursor(last.position, last.number, key)
                entries.append(span_event_entry(row, cursor, **given))
            else:
                last = Cursor(row.hlc, row.sequence_number)
                cursor = Cursor(last.position, last.number, place_key(time, BEFORE_SPANS))
                entry = event_entry(row, outcome=outcomes.get(row.event_id), **given)
                entries.append(msgspec.structs.replace(entry, cursor=cursor))
        return Page(
            trace_id=trace_id,
            entries=entries,
            next=cursor if len(merged) > limit else None,
            summary=self._in_short(tenant, counts, trace_ids, spans=span_counts),
        )

    def _outcomes(
        self, tenant: str, trace_ids: list[str], events: Sequence[EventRow]
    ) -> dict[str, dict[str, Any]]:
        """Return what later events decide about events of a page, by event id."""
        since = min((row.hlc for row in events if is_undecided(row)), default=None)
        if since is None:
            return {}
        most = len(events) + MAX_AHEAD
        rows = self.reader.attempts(tenant, trace_ids, since=since, most=most)
        run = build(rows)
        found = outcomes_of(run, chains_of(run))
        return {row.event_id: found[id(row)] for row in rows.events if id(row) in found}

    def _sequences(
        self, tenant: str, trace_ids: list[str], events: Sequence[EventRow]
    ) -> dict[str, dict[str, Any]]:
        """Return the agents of pipelines that began on a page without a plan, by event id."""
        begun = {row.span_id: row.event_id for row in events if row.span_id and has_no_plan(row)}
        if not begun:
            return {}
        closed = self.reader.pipeline_ends(tenant, trace_ids, sorted(begun))
        found = {begun[row.span_id]: sequence_of(row) for row in closed if row.span_id in begun}
        return {event_id: fields for event_id, fields in found.items() if fields}

    def state(self, tenant: str, trace_id: str, *, at: MomentOfRun, linked: bool = True) -> bytes:
        """Return the state of the run at a point in time as JSON."""
        analysis = self.traces.analysis(tenant, trace_id, linked=linked)
        return msgspec.json.encode(state_at(analysis, at))

    def _whole(
        self,
        tenant: str,
        trace_id: str,
        *,
        after: Cursor,
        limit: int | None,
        linked: bool,
        content: bool,
        attempts: bool,
    ) -> Page:
        analysis = self.traces.analysis(
            tenant, trace_id, whole=True, linked=linked, content=content, attempts=attempts
        )
        entries = [entry for entry in timeline_of(analysis, tenant=tenant) if entry.cursor > after]
        more = limit is not None and len(entries) > limit
        shown = entries[:limit]
        rest = shown[-1].cursor if shown and (more or analysis.run.truncated) else None
        return Page(
            trace_id=trace_id,
            entries=shown,
            next=rest,
            summary=summary_of(analysis),
            chains=shown_chains(analysis),
        )

    def _in_short(
        self, tenant: str, counts: Counts, trace_ids: Sequence[str], *, spans: SpanTotals
    ) -> dict[str, Any]:
        """Return the summary fields that can be counted without reading the run."""
        has_calls = counts.calls > 0
        cost = counts.call_cost if has_calls else counts.said_cost
        if counts.unpriced:
            cost = self.reader.cost(tenant, trace_ids, counts)
        # The list has the same figures of the run itself.
        row = next(iter(self.search.by_ids(tenant, {trace_ids[0]: counts.began})), {})
        return {
            "total_events": counts.total_events + spans.spans + spans.span_events,
            "agents_executed": len(counts.agents),
            "total_time_ms": round(row.get("duration_ms", (counts.ended - counts.began) / MILLI)),
            "errors": row.get("errors", counts.errors),
            "retries": counts.retries + spans.retries,
            "fallbacks": counts.fallbacks + spans.fallbacks,
            "decisions": counts.decisions + spans.decisions,
            "agents": counts.agents,
            "pipeline_type": counts.pipeline_type or None,
            "status": counts.status or None,
            "name": row.get("name"),
            "state": row.get("status"),
            "duration_ms": row.get("duration_ms"),
            "llm_tokens_used": counts.call_tokens if has_calls else counts.said_tokens,
            "llm_cost_usd": cost,
            **{name: row[name] for name in ("unpriced_tokens", "unpriced_models") if name in row},
            "total_spans": spans.spans,
            "span_events": spans.span_events,
            "runs": list(trace_ids),
            "in_short": True,
            "truncated": False,
        }


def _merged(
    events: Sequence[EventRow],
    spans: Sequence[SpanRow],
    span_events: Sequence[SpanEventRow],
    *,
    after: Cursor,
) -> list[tuple[EventRow | SpanRow | SpanEventRow, int]]:
    """Return the rows of a page in order, with their times.

    Events keep their causal order. An event may be numbered long after it happened, if its thread had to
    wait, so spans are placed by the latest time of the events before them. They are placed by their own
    clocks: the rest of the tree, which shows how the clocks differ, is not read.
    """
    time = span_place(after)[0]
    placed: list[tuple[tuple[int, int, int, str, int], EventRow | SpanRow | SpanEventRow]] = []
    for row in events:
        time = max(time, time_of(row))
        placed.append(((time, 0, row.hlc, "", row.sequence_number), row))
    placed += [((max(0, span.began), 1, 0, span.span_id, 0), span) for span in spans]
    placed += [((mark.time, 1, 0, mark.span_id, mark.number), mark) for mark in span_events]
    placed.sort(key=itemgetter(0))
    return [(row, key[0]) for key, row in placed]


def parse_cursor(text: str, *, name: str = "after") -> Cursor:
    """Parse a timeline position from an earlier response.

    Raises:
        BadRequestError: it is malformed.
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequestError(
            f"{name}: {text[:80]!r} is not a place in a timeline; expected `next` of an earlier"
            " answer, or the `id` of an entry that was played"
        )
    return Cursor(int(found[1]), int(found[2]), found[3] or "")


def check_trace_id(trace_id: str) -> str:
    """Return a trace id that matches the contract.

    Raises:
        BadRequestError: it does not match.
    """
    if not _TRACE_ID.fullmatch(trace_id):
        raise BadRequestError(
            f"trace id {trace_id[:140]!r} is not valid; expected 1 to 128 letters, digits, _ . : -"
        )
    return trace_id
