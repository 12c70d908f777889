"""Reader of a run's rows: its events, those of linked runs, and foreign spans."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import msgspec

from tracereel._runtime.clock import otel_trace_id
from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query.costs import NANO_USD
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.run.events import EventRow as EventRow
from tracereel_collector.query.run.events import StoredEvent, event_rows, fill_sessions
from tracereel_collector.query.run.ledger import LedgerRow
from tracereel_collector.query.run.positions import BEGINNING, Cursor, span_place
from tracereel_collector.query.store_reader import Row, StoreReader, read_rows
from tracereel_collector.store.price_sql import FRAGMENTS
from tracereel_collector.store.sql import query

MAX_EVENTS = 50_000
"""Maximum events, and maximum spans, before a run is truncated."""
MAX_RUNS = 200
"""Maximum runs in one tree."""
MAX_LEVELS = 8
"""Maximum depth of child runs."""
MAX_NUMBERS = 1_000_000
"""Maximum event numbers per emitter and run that are checked for gaps."""


class SpanRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_spans.sql`, in column order."""

    sequence_number: int
    ingested_at: str
    trace_id: str
    span_id: str
    parent_span_id: str = ""
    began: int = 0
    duration: int = 0
    name: str = ""
    span_kind: str = ""
    service: str = ""
    status_code: str = ""
    status_message: str = ""
    call_kind: str = ""
    provider: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    agent_name: str = ""
    workflow_name: str = ""
    tool_name: str = ""
    error_type: str = ""
    session_id: str = ""
    user_id: str = ""
    attributes: str = ""
    event_count: int = 0
    scope: str = ""
    model_requested: str = ""
    response_id: str = ""


class SpanEventRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_span_events.sql`, in column order."""

    trace_id: str
    span_id: str
    number: int
    """Position among the events of its span, from 1."""
    time: int
    name: str
    attributes: dict[str, str] = {}
    types: dict[str, int] = {}
    sequence_number: int = 0
    ingested_at: str = ""


class SpanTotals(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_span_count.sql`, in column order."""

    spans: int = 0
    span_events: int = 0
    retries: int = 0
    fallbacks: int = 0
    decisions: int = 0


class EmitterRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_emitters.sql`, in column order."""

    emitter_id: str = ""
    state: str = "unknown"
    service: str = ""
    host: str = ""
    pid: int | None = None
    last_heartbeat_at: str | None = None
    claimed: int = 0
    stored: int = 0
    missing: int = 0
    spooled: int | None = None
    dropped: dict[str, int] = {}
    clock_ahead_nano: int | None = None


NO_EMITTER = EmitterRow()


class Counts(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_counts.sql`, in column order."""

    total_events: int
    agents: list[str]
    began: int
    ended: int
    errors: int
    retries: int
    fallbacks: int
    decisions: int
    pipeline_type: str
    status: str
    calls: int
    call_tokens: int | None
    call_cost: float | None
    said_tokens: int | None
    said_cost: float | None
    otel_trace_ids: list[str]
    unpriced: int
    """Calls with reported tokens but without a reported cost."""
    sessions: list[tuple[str, str]]
    """Runs and the sessions that their events name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """Stored rows of a run and the runs linked to it."""

    trace_id: str
    """Requested id."""
    trace_ids: tuple[str, ...]
    """Runs of the events: the requested one, then its child runs."""
    events: Sequence[EventRow]
    """Events in causal order, without duplicates."""
    spans: Sequence[SpanRow]
    span_events: Sequence[SpanEventRow] = ()
    """Events that the program added to its spans, by time."""
    prices: Mapping[str, float]
    """Calculated costs of calls without a reported cost, by span id."""
    truncated: bool = False
    """Whether more rows exist than are held here."""


Links = tuple[list[str], bool]
"""Child runs of a run, and whether it may have foreign spans."""


@dataclass(frozen=True, slots=True)
class RunReader:
    """Reader of the rows of runs."""

    store: StoreReader

    def read(
        self,
        tenant: str,
        trace_id: str,
        *,
        whole: bool = False,
        linked: bool = True,
        content: bool = True,
    ) -> RunRows:
        """Read a run, or the runs of an OpenTelemetry trace, by id.

        `whole` includes event payloads and span attributes; without `content`, large content is left out.

        Raises:
            UnknownResourceError: the tenant has nothing with that id.
        """
        derived = otel_trace_id(trace_id)
        trace_ids = [trace_id]
        events, (children, has_spans), more = self._whole(tenant, trace_id, derived, whole=whole)
        if not events and (runs := self._runs_of(tenant, derived)):
            trace_ids = sorted(runs)
            events, more = self._events(tenant, trace_ids, MAX_EVENTS, whole=whole)
            children, has_spans = self._links(tenant, trace_ids, derived)
        if linked and children:
            found, cut = self._linked(tenant, trace_ids, children, events, whole=whole)
            events, more = found, more or cut
        traces = sorted({derived, *(row.otel_trace_id for row in events)} - {""})
        spans: list[SpanRow] = []
        if has_spans or len(traces) > 1:
            spans = self._spans(tenant, traces, whole=whole)
            more = more or len(spans) > MAX_EVENTS
            del spans[MAX_EVENTS:]
        span_events: list[SpanEventRow] = []
        if any(span.event_count for span in spans):
            span_events = self._span_events(tenant, traces)
            more = more or len(span_events) > MAX_EVENTS
            del span_events[MAX_EVENTS:]
        if not events and not spans:
            raise UnknownResourceError(
                f"Run not found: {trace_id!r}",
                hint="events appear within a second of their acknowledgement",
            )
        if whole and content:
            self._fill_content(tenant, events)
        fill_sessions(events)
        return RunRows(
            trace_id=trace_id,
            trace_ids=tuple(trace_ids),
            events=events,
            spans=spans,
            span_events=span_events,
            prices=self._prices(tenant, traces) if _lacks_prices(events, spans) else {},
            truncated=more,
        )

    def counts(
        self, tenant: str, trace_id: str, *, linked: bool = True
    ) -> tuple[Counts, list[str]]:
        """Return the counts and the linked run ids of a run without reading it.

        The id may be that of an OpenTelemetry trace, as in `read`.
        """
        counts, trace_ids = self._counts(tenant, [trace_id], linked=linked)
        if not counts.total_events and (runs := self._runs_of(tenant, otel_trace_id(trace_id))):
            return self._counts(tenant, sorted(runs), linked=linked)
        return counts, trace_ids

    def _counts(
        self, tenant: str, trace_ids: list[str], *, linked: bool
    ) -> tuple[Counts, list[str]]:
        below = trace_ids
        for _ in range(MAX_LEVELS):
            children, _has_spans = self._links(tenant, below, "")
            below = sorted(set(children) - set(trace_ids)) if linked else []
            below = below[: MAX_RUNS - len(trace_ids)]
            if not below:
                break
            trace_ids = [*trace_ids, *below]
        (counts,) = self._rows("run_counts", Counts, tenant=tenant, trace_ids=trace_ids)
        return counts, trace_ids

    def cost(self, tenant: str, trace_ids: Iterable[str], counts: Counts) -> float | None:
        """Return the cost of runs without reading them; unreported costs are calculated."""
        answer = self.store.select(
            Template(query("run_cost")).substitute(nano_usd=NANO_USD),
            {
                "tenant": tenant,
                "trace_ids": sorted({*trace_ids, *counts.otel_trace_ids}),
                "began": counts.began,
                "ended": counts.ended,
            },
            fmt="TabSeparated",
        )
        return int(answer) / 1e9 if int(answer) else None

    def payloads(self, tenant: str, trace_id: str, numbers: Sequence[int]) -> list[str]:
        """Return the payloads of events by sequence number."""
        given = {"tenant": tenant, "trace_id": trace_id, "numbers": list(numbers)}
        rows = self._rows("run_payloads", tuple[int, str, str], **given)
        found = [StoredPayload(number, payload) for number, _, payload in rows]
        return EventContents(self.store).whole(tenant, found)

    def step_rows(self, tenant: str, trace_id: str, step_id: str) -> RunRows:
        """Return the events of one step, by span id or event id, and what was added to its span."""
        events = self._events(tenant, [trace_id], MAX_EVENTS, whole=False, step_id=step_id)[0]
        traces = sorted({row.otel_trace_id for row in events} - {""})
        spans = self._spans(tenant, traces, whole=False, only=step_id) if traces else []
        marked = any(span.event_count for span in spans)
        return RunRows(
            trace_id=trace_id,
            trace_ids=(trace_id,),
            events=events,
            spans=spans,
            span_events=self._span_events(tenant, traces, only=step_id) if marked else (),
            prices={},
        )

    def ledger(self, tenant: str, trace_ids: Sequence[str]) -> list[LedgerRow]:
        """Return the stored events of every emitter in some runs, duplicates included."""
        given = {"tenant": tenant, "trace_ids": list(trace_ids), "most": MAX_NUMBERS}
        return self._rows("run_ledger", LedgerRow, **given)

    def page(
        self,
        tenant: str,
        trace_ids: list[str],
        traces: list[str],
        *,
        after: Cursor,
        limit: int,
        content: bool = True,
    ) -> tuple[list[EventRow], list[SpanRow], list[SpanEventRow], SpanTotals]:
        """Return at most `limit` rows of each kind after a position, and counts of all spans.

        Parts of tapes are left out: a timeline does not show them.
        """
        events, _ = self._events(tenant, trace_ids, limit, whole=True, after=after, tapes=False)
        if content:
            self._fill_content(tenant, events)
        # Excluding spans that events describe reads all ids of a run, so check for spans first.
        answer = self.store.select(
            query("run_has_spans"), {"tenant": tenant, "trace_ids": traces}, fmt="TabSeparated"
        )
        if not answer:
            return events, [], [], SpanTotals()
        spans = self._spans(tenant, traces, whole=True, after=after, most=limit, told_by=trace_ids)
        given = {"tenant": tenant, "trace_ids": traces, "told_by": trace_ids}
        (counts,) = self._rows("run_span_count", SpanTotals, **given)
        span_events: list[SpanEventRow] = []
        if counts.span_events:
            span_events = self._span_events(tenant, traces, after=after, most=limit)
        return events, spans[:limit], span_events[:limit], counts

    def attempts(self, tenant: str, trace_ids: list[str], *, since: int, most: int) -> RunRows:
        """Return the events from a place on that decide how attempts and fallbacks ended."""
        given = {"tenant": tenant, "trace_ids": trace_ids, "since": since, "limit": most}
        events = event_rows(self._rows("run_attempts", StoredEvent, **given), whole=False)
        return RunRows(
            trace_id=trace_ids[0], trace_ids=tuple(trace_ids), events=events, spans=(), prices={}
        )

    def pipeline_ends(
        self, tenant: str, trace_ids: list[str], span_ids: list[str]
    ) -> list[EventRow]:
        """Return the closing events of some pipelines."""
        given = {"tenant": tenant, "trace_ids": trace_ids, "span_ids": span_ids}
        return event_rows(self._rows("run_pipeline_ends", StoredEvent, **given), whole=False)

    def emitters(
        self, tenant: str, emitter_ids: Iterable[str], *, now_unix_milli: int
    ) -> dict[str, EmitterRow]:
        """Return known emitters by id."""
        wanted = sorted(set(emitter_ids) - {""})[:MAX_RUNS]
        if not wanted:
            return {}
        given = {"tenant": tenant, "emitter_ids": wanted, "now": now_unix_milli}
        return {row.emitter_id: row for row in self._rows("run_emitters", EmitterRow, **given)}

    def _whole(
        self, tenant: str, trace_id: str, derived: str, *, whole: bool
    ) -> tuple[list[EventRow], Links, bool]:
        """Return the events of one run, its links, and whether there are more events."""
        rows = self._rows(
            "run_whole",
            StoredEvent,
            tenant=tenant,
            trace_id=trace_id,
            otel_trace_id=derived,
            limit=MAX_EVENTS + 1,
            most=MAX_RUNS,
        )
        stored = [row for row in rows if row.ingested_at]
        others = [row.payload for row in rows if not row.ingested_at]
        links = [name for name in others if name], "" in others
        if len(stored) > MAX_EVENTS:  # rows are unordered here, so query the first ones
            events, more = self._events(tenant, [trace_id], MAX_EVENTS, whole=whole)
            return events, links, more
        stored.sort(key=lambda row: (row.hlc, row.sequence_number))
        first: dict[str, EventRow] = {}
        for row in event_rows(stored, whole=whole):
            first.setdefault(row.event_id, row)
        return list(first.values()), links, False

    def _fill_content(self, tenant: str, events: Sequence[EventRow]) -> None:
        """Add content that is stored apart to the payloads."""
        shown = [row for row in events if row.event_type != TAPE_RECORDED]
        stored = [StoredPayload(row.sequence_number, row.payload) for row in shown]
        for row, payload in zip(
            shown, EventContents(self.store).whole(tenant, stored), strict=True
        ):
            row.payload = payload

    def _linked(
        self,
        tenant: str,
        trace_ids: list[str],
        children: list[str],
        events: list[EventRow],
        *,
        whole: bool,
    ) -> tuple[list[EventRow], bool]:
        """Return the events including those of child runs; child ids are appended to `trace_ids`."""
        more = False
        for _ in range(MAX_LEVELS):
            new = sorted(set(children) - set(trace_ids))
            more = more or len(trace_ids) + len(new) > MAX_RUNS
            new = new[: MAX_RUNS - len(trace_ids)]
            room = MAX_EVENTS - len(events)
            if not new or room <= 0:
                more = more or bool(new)
                break
            found, cut = self._events(tenant, new, room, whole=whole)
            events, more = [*events, *found], more or cut
            trace_ids += new
            children, _has_spans = self._links(tenant, new, "")
        return sorted(events, key=lambda row: (row.hlc, row.sequence_number)), more

    def _events(
        self,
        tenant: str,
        trace_ids: list[str],
        most: int,
        *,
        whole: bool,
        after: Cursor = BEGINNING,
        step_id: str = "",
        tapes: bool = True,
    ) -> tuple[list[EventRow], bool]:
        (first, *others) = trace_ids
        rows = self._rows(
            "linked_events" if others else "run_events",
            StoredEvent,
            tenant=tenant,
            after_position=after.position,
            after_number=after.number,
            limit=most + 1,
            tapes=tapes,
            **{"trace_ids": trace_ids} if others else {"trace_id": first, "step_id": step_id},
        )
        return event_rows(rows[:most], whole=whole), len(rows) > most

    def _links(self, tenant: str, trace_ids: list[str], derived: str) -> Links:
        given = {"trace_ids": trace_ids, "otel_trace_id": derived, "most": MAX_RUNS}
        found = self._rows("run_around", tuple[str, str], tenant=tenant, **given)
        children = [name for what, name in found if what == "child"]
        return children, any(what == "spans" for what, _ in found)

    def _runs_of(self, tenant: str, derived: str) -> list[str]:
        given = {"tenant": tenant, "otel_trace_id": derived, "most": MAX_RUNS}
        return [name for (name,) in self._rows("run_of_trace", tuple[str], **given)]

    def _spans(
        self,
        tenant: str,
        traces: list[str],
        *,
        whole: bool,
        after: Cursor = BEGINNING,
        most: int = MAX_EVENTS,
        told_by: Sequence[str] = (),
        only: str = "",
    ) -> list[SpanRow]:
        position, span_id, _ = span_place(after)
        return self._rows(
            "run_spans",
            SpanRow,
            tenant=tenant,
            trace_ids=traces,
            with_attributes=whole,
            told_by=list(told_by),
            only_span=only,
            after_position=position,
            after_span=span_id,
            limit=most + 1,
        )

    def _span_events(
        self,
        tenant: str,
        traces: list[str],
        *,
        after: Cursor = BEGINNING,
        most: int = MAX_EVENTS,
        only: str = "",
    ) -> list[SpanEventRow]:
        position, span_id, number = span_place(after)
        return self._rows(
            "run_span_events",
            SpanEventRow,
            tenant=tenant,
            trace_ids=traces,
            only_span=only,
            after_position=position,
            after_span=span_id,
            after_index=number,
            limit=most + 1,
        )

    def _prices(self, tenant: str, traces: list[str]) -> dict[str, float]:
        given = {"tenant": tenant, "trace_ids": traces, "limit": MAX_EVENTS}
        filled = Template(query("run_prices")).substitute(FRAGMENTS)
        return dict(read_rows(self.store, filled, tuple[str, float], **given))

    def _rows(self, name: str, row: type[Row], **parameters: Any) -> list[Row]:
        return read_rows(self.store, query(name), row, **parameters)


def _lacks_prices(events: Iterable[EventRow], spans: Iterable[SpanRow]) -> bool:
    """Return whether a model call has tokens but no cost."""
    calls: list[EventRow | SpanRow] = [
        row for row in events if row.event_type == "agent.llm.called"
    ]
    return any(row.tokens is not None and row.cost_usd is None for row in [*calls, *spans])
