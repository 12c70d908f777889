"""Settling of traces: each model call counts once in the sums, however many spans describe it.

Sums at insert count every span. When a trace has new rows, its calls are worked out from all of its spans
and the difference is added to the sums. The difference is taken from what is stored, so repeating it, after
a crash or in two collectors at once, changes nothing or is corrected in the next round.
"""

import functools
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from string import Template
from typing import Any, Final

import msgspec

from tracereel_collector.store import settings as sent
from tracereel_collector.store.calls import Calls, CallSpan, calls_of
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.dialects.own import CLOSES
from tracereel_collector.store.rollups import (
    MAX_DURATION_MS,
    OWN_SCOPE,
    UNPRICED_OF_SPANS,
    nano_usd,
)
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query

MAX_TRACES: Final = 500
"""Maximum traces that are read at once."""
MAX_SPANS: Final = 50_000
"""Maximum spans that are read at once; the sums of a longer trace stay as they came."""
MAX_EVENTS: Final = 200_000
"""Maximum rows that are read at once, events included."""
_SPANS: Final = Template(query("spans_of_traces")).substitute(
    span_nano_usd=nano_usd("CostUsd"),
    span_unpriced=UNPRICED_OF_SPANS,
    event_nano_usd=nano_usd("llm_cost_usd"),
    closes=CLOSES,
    max_duration=MAX_DURATION_MS,
)


class UnsettledTrace(msgspec.Struct, array_like=True, frozen=True):
    """Row of `unsettled_traces.sql`."""

    tenant: str
    trace: str
    spans: int
    events: int
    known: int

    @property
    def records(self) -> int:
        """Number of records that it has now."""
        return self.spans + self.events


class _SpanSums(msgspec.Struct, array_like=True, frozen=True):
    """Row of `sums_of_traces.sql`."""

    trace: str
    spans: int
    settled: int
    span_calls: int
    span_tokens: int
    span_nano_usd: int
    span_errors: int
    span_unpriced: dict[str, int]
    hour: str
    day: str
    started: str
    ended: str


class _Span(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `spans_of_traces.sql`."""

    trace: str
    span: str
    parent: str
    began: int
    ended: int
    scope: str
    kind: str
    requested: str
    served: str
    prompt: int | None
    completion: int | None
    tokens: int | None
    has_cost: bool
    failed: bool
    response_id: str
    agent: str
    told: bool
    nano_usd: int
    unpriced: dict[str, int]
    event: str
    ingested: str
    rank: int
    number: int
    position: int

    def call(self, key: str) -> CallSpan:
        """Return the span as the search for calls needs it."""
        return CallSpan(
            key=key,
            # A call of the SDK may reuse the span of its agent.
            parent=self.parent if key == self.span or not self.span else self.span,
            kind=self.kind,
            scope=self.scope,
            is_own=self.told,
            began=self.began,
            ended=self.ended,
            models=tuple(filter(None, (self.requested, self.served))),
            prompt=self.prompt,
            completion=self.completion,
            tokens=self.tokens,
            has_cost=self.has_cost,
            is_failed=self.failed,
            response_id=self.response_id,
            agent=self.agent,
        )


def unsettled(
    store: ClickHouseStore, *, member: int = 0, members: int = 1, limit: int = MAX_TRACES
) -> list[UnsettledTrace]:
    """Return traces with new rows; `member` is the share of this collector of a group."""
    given = {"member": member, "members": members, "limit": limit}
    return _select(store, UnsettledTrace, query("unsettled_traces"), given)


def batches(traces: Iterable[UnsettledTrace]) -> Iterator[list[UnsettledTrace]]:
    """Yield traces of one tenant that may be read at once."""
    by_tenant = sorted(traces, key=lambda each: (each.tenant, each.spans))
    for _, group in groupby(by_tenant, key=lambda each: each.tenant):
        batch: list[UnsettledTrace] = []
        for trace in group:
            size = sum(each.records for each in batch) + trace.records
            if batch and (size > MAX_SPANS or len(batch) == MAX_TRACES):
                yield batch
                batch = []
            batch.append(trace)
        yield batch


def settle(store: ClickHouseStore, traces: Sequence[UnsettledTrace], *, patient: bool) -> int:
    """Correct the sums of traces of one tenant; return how many were.

    A `patient` call leaves out traces whose spans and sums do not agree: an insert may be under way.
    """
    tenant, ids = traces[0].tenant, [each.trace for each in traces]
    found = _select(store, _SpanSums, query("sums_of_traces"), {"tenant": tenant, "ids": ids})
    sums = {row.trace: row for row in found}
    _forget(store, tenant, [row.trace for row in found if not row.spans])
    # Only a part of a trace may be among the rows that are looked at.
    traces = [
        each
        for each in traces
        if (stored := sums.get(each.trace)) is not None
        and stored.spans
        and stored.spans + each.events != stored.settled
    ]
    spans = _spans_of(store, tenant, [each.trace for each in traces if each.records <= MAX_SPANS])
    calls, corrections = [], []
    for trace in traces:
        stored, known = sums[trace.trace], spans.get(trace.trace, [])
        records = stored.spans + trace.events
        if trace.records > MAX_SPANS:
            unchanged = msgspec.structs.asdict(stored)
            corrections.append(_correction(tenant, stored, unchanged, records))
            continue
        if not known or (patient and sum(not span.told for span in known) != stored.spans):
            continue
        settled = _SettledTrace(known)
        calls += [
            {"TenantId": tenant, "TraceId": trace.trace, "Seen": records, **row}
            for row in settled.rows()
        ]
        corrections.append(_correction(tenant, stored, settled.sums(), records))
    if calls:
        _insert(store, "settled_calls", calls)
    if corrections:  # last: with these rows the traces are settled
        _insert(store, "trace_summaries", corrections, before=sums)
    return len(corrections)


class _SettledTrace:
    """Spans of a trace, each once, and its calls."""

    def __init__(self, rows: Sequence[_Span]) -> None:
        self._spans: dict[str, _Span] = {}
        self._arrived: dict[str, str] = {}
        for row in sorted(rows, key=lambda row: row.told and row.kind == "llm"):
            key = row.span or row.event
            taken = self._spans.get(key)
            if taken is not None and taken.told and row.told and taken.event != row.event:
                key = row.event
                taken = self._spans.get(key)
            if taken is None or (row.told and not taken.told):
                self._spans[key] = row
            arrived = self._arrived.get(key, row.ingested)
            self._arrived[key] = min(arrived, row.ingested)
        self._calls: Calls = calls_of(row.call(key) for key, row in self._spans.items())

    def sums(self) -> dict[str, Any]:
        """Return the values that its spans add to the sums of its events."""
        found = {"span_calls": 0, "span_tokens": 0, "span_nano_usd": 0, "span_errors": 0}
        unpriced: dict[str, int] = {}
        for key, span in self._spans.items():
            is_repeated = key in self._calls.repeats
            if not span.told and span.failed and span.scope != OWN_SCOPE and not is_repeated:
                found["span_errors"] += 1
            if span.kind not in DIRECT_KINDS or is_repeated != span.told:
                continue
            sign = -1 if span.told else 1
            found["span_calls"] += sign
            found["span_tokens"] += sign * (span.tokens or 0)
            found["span_nano_usd"] += sign * span.nano_usd
            for name, tokens in span.unpriced.items():
                unpriced[name] = unpriced.get(name, 0) + sign * tokens
        return {**found, "span_unpriced": unpriced}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `settled_calls`, without tenant and trace."""
        for key, span in self._spans.items():
            if span.kind not in DIRECT_KINDS:
                continue
            yield {
                "SpanId": key,
                "IngestedAt": self._arrived[key],
                "Minute": max(0, min(span.began // 10**9, 2**32 - 1)) // 60 * 60,
                "Told": int(span.told),
                "Repeated": int(key in self._calls.repeats),
                "AgentName": self._calls.agents.get(key, span.agent),
                "Model": span.served or span.requested,
                "Tokens": span.tokens or 0,
                "NanoUsd": span.nano_usd,
                "Unpriced": span.unpriced,
            }


def _correction(
    tenant: str, stored: _SpanSums, truth: dict[str, Any], records: int
) -> dict[str, Any]:
    """Return the row that makes the stored sums of a trace right."""
    unpriced = truth["span_unpriced"]
    names = unpriced.keys() | stored.span_unpriced.keys()
    changes = {
        name: unpriced.get(name, 0) - stored.span_unpriced.get(name, 0) for name in sorted(names)
    }
    figures = ("span_calls", "span_tokens", "span_nano_usd", "span_errors")
    return {
        "tenant": tenant,
        "hour": stored.hour,
        "trace_id": stored.trace,
        "day": stored.day,
        "started": stored.started,
        "ended": stored.ended,
        "confidence": 2,  # none
        **{name: truth[name] - getattr(stored, name) for name in figures},
        "span_unpriced": {name: change for name, change in changes.items() if change},
        "settled": records - stored.settled,
    }


def _spans_of(store: ClickHouseStore, tenant: str, ids: list[str]) -> dict[str, list[_Span]]:
    """Return the spans of traces; without the last trace if there are too many."""
    if not ids:
        return {}
    rows = _select(store, _Span, _SPANS, {"tenant": tenant, "ids": ids, "limit": MAX_EVENTS + 1})
    spans = {trace: list(group) for trace, group in groupby(rows, key=lambda row: row.trace)}
    if len(rows) > MAX_EVENTS:
        del spans[rows[-1].trace]
    return spans


def _forget(store: ClickHouseStore, tenant: str, ids: list[str]) -> None:
    """Delete settled sums of traces that were deleted meanwhile."""
    if ids:
        shards, given = Shards.of(store), {"tenant": tenant, "ids": ids}
        of_trace = "{tenant:String} AND %s IN {ids:Array(String)}"
        shards.alter(
            "trace_summaries",
            f"DELETE WHERE tenant = {of_trace % 'trace_id'} AND spans = 0 AND events = 0",
            given,
        )
        shards.alter("settled_calls", f"DELETE WHERE TenantId = {of_trace % 'TraceId'}", given)


@functools.cache
def _process_id() -> str:
    """Return a part of every token: a crashed process may have left tokens of unstored rows."""
    return secrets.token_hex(8)


def _insert(
    store: ClickHouseStore, table: str, rows: Sequence[dict[str, Any]], *, before: object = None
) -> None:
    """Insert rows; what the same process repeats in the same state is stored once."""
    data = b"\n".join(msgspec.json.encode(row) for row in rows)
    state = hashlib.sha256(data + repr(before).encode()).hexdigest()
    token = f"settled-{_process_id()}-{state}"
    store.put(
        table,
        data,
        fmt="JSONEachRow",
        columns=list(rows[0]),
        settings={**sent.INSERT, "insert_deduplication_token": token},
    )


def _select(store: ClickHouseStore, row: Any, statement: str, given: dict[str, Any]) -> list[Any]:
    answer = store.select(statement, given, fmt="JSONCompactEachRow")
    found: list[Any] = msgspec.json.Decoder(row, strict=False).decode_lines(answer)
    return found
