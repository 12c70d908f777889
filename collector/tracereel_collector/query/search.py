"""Search for runs: lists with filters, order and pages, facet counts and a histogram."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from string import Template
from typing import Any, Literal

import msgspec

from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.errors import InvalidFilterError
from tracereel_collector.query import cursor as cursors
from tracereel_collector.query.content.run_texts import add_texts
from tracereel_collector.query.costs import Costs, Prices, shown_unpriced
from tracereel_collector.query.counting import (
    FACET_VALUES,
    Steps,
    shown_counts,
    status_and_step,
    tag_values,
)
from tracereel_collector.query.emitters import gone_emitters
from tracereel_collector.query.filters import (
    COLUMNS,
    CRASHED,
    SORTS,
    STATUSES,
    FilterSql,
    TraceFilters,
    as_sql,
)
from tracereel_collector.query.found_details import add_executions, add_passages, add_scores
from tracereel_collector.query.store_reader import Row, read_rows, usd
from tracereel_collector.query.window import DAY, HOUR, SECOND, Window, hour_of
from tracereel_collector.store.price_names import PriceStore
from tracereel_collector.store.rollups import TAG_KINDS
from tracereel_collector.store.sql import query

MAX_RUNS = 500
MAX_BUCKETS = 500
REACH = 6 * HOUR
"""Time around a window in which further rows of its runs are searched."""
_WIDER = (HOUR, DAY, 8 * DAY)
"""Look-back periods that are tried before the whole window, for searches without filters."""
_WIDER_FILTERED = (2 * HOUR, DAY)
"""Look-back periods for searches with filters; fewer, because matches may be rare."""
_JUST_ENDED = 60 * SECOND
"""Age of a last heartbeat up to which events of its emitter may still be in transit."""
_END_OF_TIME = (2**32 - 1) * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """Search request for the runs of a tenant."""

    filters: TraceFilters = TraceFilters()
    window: Window = Window()
    sort: str = "started_at"
    order: Literal["asc", "desc"] = "desc"
    limit: int = 50
    cursor: str | None = None
    facets: tuple[str, ...] = ()
    buckets: int = 0
    executions: int = 0
    """Agent executions returned per run."""
    scores: int = 0
    """Scores returned per run."""

    @property
    def digest(self) -> str:
        """Digest that binds cursors to filters and order; windows may be relative and are excluded."""
        return cursors.digest([msgspec.to_builtins(self.filters), self.sort, self.order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Extent of a tenant's runs, determined before a search."""

    oldest: int
    newest: int
    linked: bool
    """Whether spans must be joined to runs by OpenTelemetry trace id."""
    costs: Costs

    def fill(self, name: str, *, first: str = "", **fragments: str) -> str:
        """Return a query over the rows of runs with SQL fragments filled in.

        `first` is a PREWHERE condition; it is not applied if spans are joined to runs.
        """
        rows = Template(query("search_linked_rows" if self.linked else "search_rows"))
        filled = Template(query(name)).substitute(
            rows=rows.substitute(first=first and f"PREWHERE {first}").rstrip(), **fragments
        )
        return self.costs.put_into(filled)


class _FoundTrace(msgspec.Struct, array_like=True, gc=False):
    """Row of `search_found.sql`."""

    run: str
    started_unix_nano: int
    started_at: str
    ended_at: str
    duration_ms: float
    status: str
    opened: str
    answer: str
    otel_trace_ids: list[str]
    events: int
    spans: int
    errors: int
    retries: int
    fallbacks: int
    decisions: int
    model_calls: int
    tool_calls: int
    tokens: int
    nano_usd: int
    unpriced: dict[str, int]
    lowest_confidence: float
    parent_trace_id: str
    tags: list[str]

    def by_kind(self) -> dict[str, list[str]]:
        """Return the tag values by kind."""
        values: dict[str, list[str]] = {kind: [] for kind in (*TAG_KINDS, "emitter")}
        for tag in self.tags:
            kind, _, value = tag.partition(":")
            values[kind].append(value)
        return values


@dataclass(frozen=True, slots=True)
class Search:
    """Query of `GET /v1/traces`."""

    store: PriceStore
    now_unix_nano: Callable[[], int]
    """Wall clock that ends open windows, as sender timestamps follow it too."""
    trusted_unix_nano: Callable[[], int] | None = None
    """Clock for comparisons with arrival times; default: `now_unix_nano`."""
    prices: Prices = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prices", Prices(self.store))

    def document(self, tenant: str, question: SearchQuery) -> bytes:
        """Return JSON with `traces`, `next`, `window` and, if requested, `facets` and `histogram`."""
        return msgspec.json.encode(self.answer(tenant, question))

    def answer(self, tenant: str, question: SearchQuery) -> dict[str, Any]:
        """Return the response as plain data."""
        condition = as_sql(question.filters, tenant=tenant)
        reach = self.reach(tenant)
        self._check_statuses(tenant, question, reach)
        answer: dict[str, Any] = {"traces": [], "next": None, "window": question.window.shown()}
        if question.limit:
            answer["traces"], answer["next"] = self._page(question, condition, reach)
        runs = answer["traces"]
        add_texts(self.store, tenant, runs)
        if question.executions:
            add_executions(self.store, tenant, runs, question.executions)
        if question.scores:
            add_scores(self.store, tenant, runs, question.scores)
        if question.filters.text and runs:
            hours = _in_window(condition, question.window).parameters
            reached = {name: hours[name] for name in ("first_hour", "last_hour")}
            add_passages(self.store, tenant, runs, question.filters.text, **reached)
        if question.facets or question.buckets:
            answer |= self._counts(question, condition, reach)
        return answer

    def _check_statuses(self, tenant: str, question: SearchQuery, reach: Reach) -> None:
        """Refuse a custom status that no run in the window has, as a likely mistake."""
        for status in question.filters.statuses:
            if status in STATUSES:
                continue
            alone = SearchQuery(
                filters=TraceFilters(statuses=(status,)), window=question.window, limit=1
            )
            condition = as_sql(alone.filters, tenant=tenant)
            if not self._places(alone, condition, reach, None, question.window.start):
                raise InvalidFilterError(
                    f"status: no run of this time has {status[:40]!r};"
                    f" expected one of {', '.join(STATUSES)}"
                )

    def by_ids(self, tenant: str, places: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return existing runs by id, in the given order; `places` holds approximate start times."""
        found = self._found(tenant, places, self.reach(tenant))
        return [_shown(found[run]) for run in places if run in found]

    def reach(self, tenant: str) -> Reach:
        """Return the extent of a tenant's runs."""
        rows = read_rows(
            self.store, query("search_reach"), tuple[int, int, int, int], tenant=tenant
        )
        ((oldest, newest, linked, unpriced),) = rows
        return Reach(
            oldest=oldest * SECOND,
            newest=newest * SECOND,
            linked=bool(linked),
            costs=self.prices.costs() if unpriced else Costs(),
        )

    def _page(
        self, question: SearchQuery, condition: FilterSql, reach: Reach
    ) -> tuple[list[dict[str, Any]], str | None]:
        place = cursors.decode(question.cursor, question.digest) if question.cursor else None
        for start in self._starts(question, reach, place):
            places = self._places(question, condition, reach, place, start)
            if len(places) > question.limit:
                break
        following = None
        if len(places) > question.limit:
            del places[question.limit :]
            last = cursors.CursorPosition(value=places[-1][1], name=places[-1][0])
            following = cursors.encode(last, question.digest)
        guesses, latest = dict(places), question.window.end
        if question.sort != "started_at":
            # Results sorted by another column lack the start time: it may be anywhere in the window.
            guesses = dict.fromkeys(guesses, 0 if start is None else start)
            latest = reach.newest if latest is None else latest
        found = self._found(condition.parameters["tenant"], guesses, reach, last=latest)
        # Runs that began before `start` belong to a later page or are outside of the window.
        rows = [
            found[run]
            for run in guesses
            if run in found and (start is None or found[run].started_unix_nano >= start)
        ]
        statuses = question.filters.statuses
        return [_shown(row) for row in rows if not statuses or row.status in statuses], following

    def _starts(
        self, question: SearchQuery, reach: Reach, place: cursors.CursorPosition | None
    ) -> list[int | None]:
        """Return start times to search from, in turn, until a page is full."""
        first = question.window.start
        if question.sort != "started_at" or question.order != "desc":
            return [first]
        newest = place.value if place is not None else reach.newest
        if question.window.end is not None:
            newest = min(newest, question.window.end)
        aligned = newest // HOUR * HOUR
        wider = _WIDER if question.filters == TraceFilters() else _WIDER_FILTERED
        starts = [aligned - back for back in wider]
        oldest = reach.oldest if first is None else max(first, reach.oldest)
        return [*(start for start in starts if start > oldest), first]

    def _places(
        self,
        question: SearchQuery,
        condition: FilterSql,
        reach: Reach,
        place: cursors.CursorPosition | None,
        start: int | None,
    ) -> list[tuple[str, int]]:
        chosen = _in_window(condition, Window(start=start, end=question.window.end))
        if question.sort == "confidence":  # 2 means no confidence
            chosen.needs("confidence_ppm")
            chosen.holds("confidence_ppm <= 1000000")
        if place is not None:
            sign = "<" if question.order == "desc" else ">"
            chosen.holds(
                f"(sort_value, run) {sign} ({{place:Int64}}, {{place_run:String}})",
                place=place.value,
                place_run=place.name,
            )
            if question.sort == "started_at" and question.order == "desc":
                end = min(place.value + SECOND, question.window.end or _END_OF_TIME)
                chosen.parameters["last_hour"] = hour_of(end + REACH)
        chosen.parameters["limit"] = question.limit + 1
        sort_value, direction = COLUMNS[SORTS[question.sort]], question.order.upper()
        fragments = {"sort_value": sort_value, "direction": direction}
        return self._select("search_runs", tuple[str, int], reach, chosen, **fragments)

    def _found(
        self,
        tenant: str,
        places: Mapping[str, int],
        reach: Reach,
        *,
        last: int | None = None,
    ) -> dict[str, _FoundTrace]:
        if not places:
            return {}
        latest = last if last is not None else max(places.values())
        ends = _END_OF_TIME if latest == 0 else min(latest + DAY, _END_OF_TIME)
        shown = (
            *("duration_us", "status", "events", "errors", "model_calls"),
            *("tokens", "nano_usd", "unpriced"),
        )
        columns = {name: COLUMNS[name] for name in shown}

        def read() -> list[_FoundTrace]:
            return read_rows(
                *(self.store, reach.fill("search_found", **columns), _FoundTrace),
                tenant=tenant,
                runs=list(places),
                first_hour=hour_of(min(places.values()) - REACH),
                last_hour=hour_of(ends),
                **reach.costs.parameters,
            )

        rows = read()
        asked = sorted({each for _, emitters in _running(rows) for each in emitters})
        now = (self.trusted_unix_nano or self.now_unix_nano)()
        gone = gone_emitters(self.store, tenant, asked, now_unix_nano=now)
        if any(ended > now - _JUST_ENDED for ended in gone.values()):
            # Its last events may have been stored between the two queries.
            rows = read()
        for row, emitters in _running(rows):
            if emitters and gone.keys() >= set(emitters):
                row.status = CRASHED
        return {row.run: row for row in rows}

    def _counts(self, question: SearchQuery, condition: FilterSql, reach: Reach) -> dict[str, Any]:
        """Return `facets` and `histogram` as requested, from a single query."""
        facets, steps = question.facets, None
        if question.buckets:
            steps = Steps.of(question.window, question.buckets, now=self.now_unix_nano())
        chosen = _in_window(condition, steps.window if steps and not facets else question.window)
        chosen.needs("status")
        chosen.parameters["values"] = max(FACET_VALUES, 2 * question.buckets)
        if steps:
            chosen.parameters |= steps.parameters()
        rows = self._select(
            *("search_counts", tuple[str, str, int], reach, chosen),
            said=tag_values(facets),
            marks=status_and_step(facets, steps),
        )
        return shown_counts(rows, facets, steps)

    def _select(
        self, name: str, row: type[Row], reach: Reach, chosen: FilterSql, **fragments: str
    ) -> list[Row]:
        wanted, conditions = chosen.columns, chosen.conditions
        if chosen.first and reach.linked:
            # Rows of a linked run have several ids, so the condition is evaluated per run.
            wanted = {**wanted, "is_first": f"max({chosen.first})"}
            conditions = [*conditions, "is_first"]
        statement = reach.fill(
            name,
            first=chosen.first,
            columns=", ".join(f"{sql} AS {column}" for column, sql in wanted.items()),
            conditions=" AND ".join(conditions),
            **fragments,
        )
        return read_rows(self.store, statement, row, **chosen.parameters, **reach.costs.parameters)


def _in_window(condition: FilterSql, window: Window) -> FilterSql:
    """Return a copy of the condition, limited to runs that began in a window."""
    made = deepcopy(condition)
    made.needs("started")
    made.holds(
        "started >= {window_start:Int64} AND started < {window_end:Int64}",
        window_start=-(2**63) + 1 if window.start is None else window.start,
        window_end=2**63 - 1 if window.end is None else window.end,
        first_hour=hour_of(0 if window.start is None else window.start),
        # Arrival day, with a day of margin because a sender's clock may be ahead.
        first_day=hour_of(0 if window.start is None else window.start - DAY)[:10],
        last_hour=hour_of(_END_OF_TIME if window.end is None else window.end + REACH),
    )
    return made


def _running(rows: Sequence[_FoundTrace]) -> list[tuple[_FoundTrace, list[str]]]:
    """Return the runs without an end, with their emitters."""
    return [(row, row.by_kind()["emitter"]) for row in rows if row.status == "running"]


def _shown(row: _FoundTrace) -> dict[str, Any]:
    tags = row.by_kind()
    name, _, prompt = row.opened.partition("\t")
    return {
        "trace_id": row.run,
        # Without an explicit OpenTelemetry trace id, the one derived from the run id applies.
        "otel_trace_ids": row.otel_trace_ids or [otel_trace_id(row.run)],
        "parent_trace_id": row.parent_trace_id or None,
        "name": name or _first(tags["pipeline"]) or _first(tags["agent"]),
        "status": row.status,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "duration_ms": row.duration_ms,
        "prompt": prompt or None,
        "answer": row.answer or None,
        "pipeline_type": name if name in tags["pipeline"] else _first(tags["pipeline"]),
        "agents": tags["agent"],
        "models": tags["model"],
        "services": tags["service"],
        "session_id": _first(tags["session"]),
        "user_id": _first(tags["user"]),
        "error_types": tags["error"],
        "error_categories": tags["category"],
        **{name: getattr(row, name) for name in _COUNTERS},
        "tokens": row.tokens,
        "cost_usd": usd(row.nano_usd),
        **shown_unpriced(row.unpriced),
        "lowest_confidence": None if row.lowest_confidence > 1 else row.lowest_confidence,
    }


_COUNTERS = (
    *("events", "spans", "errors", "retries", "fallbacks", "decisions"),
    *("model_calls", "tool_calls"),
)


def _first(values: Sequence[str]) -> str | None:
    return values[0] if values else None
