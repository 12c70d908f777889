"""Deletion of the rows of runs from every table, waiting until they are removed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel_collector.store.rollup_agents import FORGET
from tracereel_collector.store.shards import SHARDED, Shards
from tracereel_collector.store.sql import query

MAX_TRACES = 5_000
"""Runs per statement; a user with more is deleted in several statements."""
MAX_NAMES = 5_000
"""Names of spans or agents per statement."""
MAX_ROUNDS = 200
"""Statements per deletion; the next deletion continues with the rest."""
_OTEL_ID = re.compile(r"[0-9a-f]{32}")
_Shared = tuple[str, int, list[str]]


class Changes(Protocol):
    """Store interface that deletion uses."""

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; return the response's bytes in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a bound statement that changes rows; return when it is applied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsToDelete:
    """Runs of a tenant, with the OpenTelemetry traces that are theirs alone or shared."""

    tenant: str
    ids: list[str]
    otel: list[str]
    shared: list[str]
    spans: list[str]
    """Their spans in traces that are shared with other runs."""

    def parameters(self) -> dict[str, Any]:
        """Return the query parameters of the statements."""
        return {
            "tenant": self.tenant,
            "ids": sorted({*self.ids, *self.otel}),
            "otel": self.otel,
            "shared": self.shared,
            "spans": self.spans,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableWithRuns:
    """Table that may have rows of runs."""

    table: str
    """Table to read, which covers all shards."""
    changed: str
    """Table as named in a statement that changes rows."""
    where: str


def runs_of(store: Changes, tenant: str, ids: list[str]) -> RunsToDelete:
    """Return the runs with their OpenTelemetry traces and spans."""
    answer = store.select(
        query("otel_traces_of_runs"), {"tenant": tenant, "ids": ids}, fmt="JSONCompactEachRow"
    )
    found = msgspec.json.Decoder(_Shared).decode_lines(answer)
    # An id without events may be an OpenTelemetry trace id itself.
    own = {name.lower() for name in ids if _OTEL_ID.fullmatch(name.lower())}
    own |= {name for name, is_shared, _ in found if not is_shared}
    shared = {name for name, is_shared, _ in found if is_shared}
    return RunsToDelete(
        tenant=tenant,
        ids=ids,
        otel=sorted(own - shared),
        shared=sorted(shared),
        spans=sorted({span for _, _, spans in found for span in spans}),
    )


def traces_of_user(store: Changes, tenant: str, user_id: str, *, done: set[str]) -> list[str]:
    """Return runs of a user that are not in `done`, at most `MAX_TRACES`."""
    answer = store.select(
        query("traces_of_user"),
        {"tenant": tenant, "user_id": user_id, "limit": MAX_TRACES + len(done)},
        fmt="JSONCompactEachRow",
    )
    found = [row[0] for row in msgspec.json.Decoder(tuple[str]).decode_lines(answer)]
    return [name for name in found if name not in done][:MAX_TRACES]


def spans_of_user(store: Changes, tenant: str, user_id: str) -> RunsToDelete:
    """Return the spans of a user in traces that are shared with other runs."""
    answer = store.select(
        query("spans_of_user"),
        {"tenant": tenant, "user_id": user_id, "limit": MAX_TRACES},
        fmt="JSONCompactEachRow",
    )
    found = msgspec.json.Decoder(tuple[str, str]).decode_lines(answer)
    return RunsToDelete(
        tenant=tenant,
        ids=[],
        otel=[],
        shared=sorted({trace for trace, _ in found}),
        spans=sorted({span for _, span in found}),
    )


def count_rows(store: Changes, runs: RunsToDelete) -> dict[str, int]:
    """Return the number of rows of the runs by table, without empty tables."""
    return {place.table: rows for place, rows in _counted(store, runs)}


def delete_rows(store: Changes, runs: RunsToDelete) -> dict[str, int]:
    """Delete the rows of the runs; return their number by table."""
    counted = _counted(store, runs)
    for place, _ in counted:
        if place.table in FORGET:
            # Directly before the delete: a repeated deletion then finds no rows to subtract again.
            store.change(FORGET[place.table], runs.parameters())
        store.change(f"ALTER TABLE {place.changed} DELETE WHERE {place.where}", runs.parameters())
    # Unconditional, because an earlier deletion may have been interrupted here.
    _forget_names(store, runs.tenant)
    return {place.table: rows for place, rows in counted}


def _counted(store: Changes, runs: RunsToDelete) -> list[tuple[_TableWithRuns, int]]:
    """Return the tables that have rows of the runs, with the number of rows."""
    found = []
    for place in _places(store):
        answer = store.select(
            f"SELECT count() FROM `{place.table}` WHERE {place.where}",
            runs.parameters(),
            fmt="TabSeparated",
        )
        found.append((place, int(answer)))
    return [(place, rows) for place, rows in found if rows]


def _places(store: Changes) -> list[_TableWithRuns]:
    shards = Shards.of(store.rows(SHARDED))
    return [
        _TableWithRuns(
            table=shards.name(kept),
            changed=shards.changed(shards.name(kept)),
            where=_where(tenant, trace, spans == "1"),
        )
        for kept, tenant, trace, spans in store.rows(query("deletable_tables"))
    ]


def _forget_names(store: Changes, tenant: str) -> None:
    """Delete names of spans and agents that no row uses any more.

    They are selected first: a mutation of a replicated table must not contain a subquery.
    """
    shards = Shards.of(store.rows(SHARDED))
    for _ in range(MAX_ROUNDS):
        names = _names(store, "gone_span_names", tenant=tenant, limit=MAX_NAMES)
        _forget(store, shards, "span_names", "SpanName", "TenantId", tenant, names)
        if len(names) < MAX_NAMES:
            break
    after = ""
    for _ in range(MAX_ROUNDS):
        emptied = _names(store, "emptied_agents", tenant=tenant, after=after, limit=MAX_NAMES)
        if not emptied:
            break
        # Query the large table only about these; most deletions leave no agent empty.
        still = set(_names(store, "agents_with_events", tenant=tenant, names=emptied))
        gone = [name for name in emptied if name not in still]
        for table in ("agent_hours", "agent_minutes"):
            _forget(store, shards, table, "agent", "tenant", tenant, gone)
        after = emptied[-1]


def _names(store: Changes, asked: str, /, **parameters: Any) -> list[str]:
    answer = store.select(query(asked), parameters, fmt="JSONCompactEachRow")
    return [row[0] for row in msgspec.json.Decoder(tuple[str]).decode_lines(answer)]


def _forget(
    store: Changes,
    shards: Shards,
    table: str,
    column: str,
    owner: str,
    tenant: str,
    names: list[str],
) -> None:
    if names:
        store.change(
            f"ALTER TABLE {shards.changed(table)} DELETE"
            f" WHERE {owner} = {{tenant:String}} AND {column} IN {{names:Array(String)}}",
            {"tenant": tenant, "names": names},
        )


def _where(tenant: str, trace: str, has_spans: bool) -> str:
    """Return the condition; names are from our own tables, values are bound."""
    if trace == "trace_id":
        return f"`{tenant}` = {{tenant:String}} AND trace_id IN {{ids:Array(String)}}"
    which = "TraceId IN {otel:Array(String)}"
    if has_spans:
        which += " OR (TraceId IN {shared:Array(String)} AND SpanId IN {spans:Array(String)})"
    return f"`{tenant}` = {{tenant:String}} AND ({which})"
