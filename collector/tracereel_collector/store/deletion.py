"""Removes the rows of runs from every table that has some, and waits until they are gone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel_collector.store.rollup_agents import FORGET
from tracereel_collector.store.sql import query

MAX_TRACES = 5_000
"""Runs in one statement; a user with more is deleted in several."""
_OTEL_ID = re.compile(r"[0-9a-f]{32}")
_Shared = tuple[str, int, list[str]]


class Changes(Protocol):
    """What deletion needs of the store."""

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a bound statement that changes rows; returns when they have changed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs of a tenant, with the OpenTelemetry traces that are theirs alone and those they share."""

    tenant: str
    ids: list[str]
    otel: list[str]
    shared: list[str]
    spans: list[str]
    """Their spans in traces that other runs are part of too."""

    def parameters(self) -> dict[str, Any]:
        """As the statements want them."""
        return {
            "tenant": self.tenant,
            "ids": sorted({*self.ids, *self.otel}),
            "otel": self.otel,
            "shared": self.shared,
            "spans": self.spans,
        }


def runs_of(store: Changes, tenant: str, ids: list[str]) -> Runs:
    """What belongs to some runs."""
    answer = store.select(
        query("otel_traces_of_runs"), {"tenant": tenant, "ids": ids}, fmt="JSONCompactEachRow"
    )
    found = msgspec.json.Decoder(_Shared).decode_lines(answer)
    # An id that no event speaks of may be an OpenTelemetry trace itself.
    own = {name.lower() for name in ids if _OTEL_ID.fullmatch(name.lower())}
    own |= {name for name, is_shared, _ in found if not is_shared}
    shared = {name for name, is_shared, _ in found if is_shared}
    return Runs(
        tenant=tenant,
        ids=ids,
        otel=sorted(own - shared),
        shared=sorted(shared),
        spans=sorted({span for _, _, spans in found for span in spans}),
    )


def traces_of_user(store: Changes, tenant: str, user_id: str, *, done: set[str]) -> list[str]:
    """Runs of a user that are not done yet; all of them, unless there are very many."""
    answer = store.select(
        query("traces_of_user"),
        {"tenant": tenant, "user_id": user_id, "limit": MAX_TRACES + len(done)},
        fmt="JSONCompactEachRow",
    )
    found = [row[0] for row in msgspec.json.Decoder(tuple[str]).decode_lines(answer)]
    return [name for name in found if name not in done][:MAX_TRACES]


def spans_of_user(store: Changes, tenant: str, user_id: str) -> Runs:
    """Spans of a user in traces that other runs are part of too."""
    answer = store.select(
        query("spans_of_user"),
        {"tenant": tenant, "user_id": user_id, "limit": MAX_TRACES},
        fmt="JSONCompactEachRow",
    )
    found = msgspec.json.Decoder(tuple[str, str]).decode_lines(answer)
    return Runs(
        tenant=tenant,
        ids=[],
        otel=[],
        shared=sorted({trace for trace, _ in found}),
        spans=sorted({span for _, span in found}),
    )


def count_rows(store: Changes, runs: Runs) -> dict[str, int]:
    """How many rows each table has of some runs; tables without any are left out."""
    found = {}
    for table, where in _places(store):
        answer = store.select(
            f"SELECT count() FROM `{table}` WHERE {where}", runs.parameters(), fmt="TabSeparated"
        )
        found[table] = int(answer)
    return {table: rows for table, rows in found.items() if rows}


def delete_rows(store: Changes, runs: Runs) -> dict[str, int]:
    """Remove them; returns how many there were in each table."""
    counted = count_rows(store, runs)
    for table, where in _places(store):
        if table in counted and table in FORGET:
            # Right before, so that a deletion that is tried again finds nothing to subtract twice.
            store.change(FORGET[table], runs.parameters())
        if table in counted:
            store.change(f"ALTER TABLE `{table}` DELETE WHERE {where}", runs.parameters())
    # Names of spans are listed apart from them. Always, should an earlier deletion have stopped here.
    store.change(query("forget_span_names"), {"tenant": runs.tenant})
    return counted


def _places(store: Changes) -> list[tuple[str, str]]:
    return [
        (table, _where(tenant, trace, spans == "1"))
        for table, tenant, trace, spans in store.rows(query("deletable_tables"))
    ]


def _where(tenant: str, trace: str, has_spans: bool) -> str:
    """Which rows; the names are those of our own tables, the values are bound."""
    if trace == "trace_id":
        return f"`{tenant}` = {{tenant:String}} AND trace_id IN {{ids:Array(String)}}"
    which = "TraceId IN {otel:Array(String)}"
    if has_spans:
        which += " OR (TraceId IN {shared:Array(String)} AND SpanId IN {spans:Array(String)})"
    return f"`{tenant}` = {{tenant:String}} AND ({which})"
