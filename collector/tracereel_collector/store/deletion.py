"""Removes the rows of runs from every table that has some, and waits until they are gone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel_collector.store.rollup_agents import FORGET
from tracereel_collector.store.shards import SHARDED, Shards
from tracereel_collector.store.sql import query

MAX_TRACES = 5_000
"""Runs in one statement; a user with more is deleted in several."""
MAX_NAMES = 5_000
"""Names of spans or agents in one statement."""
MAX_ROUNDS = 200
"""Such statements in one deletion; the next goes on with what is left."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A table that may have rows of runs."""

    table: str
    """Rows of all shards are read from it."""
    changed: str
    """The table as a statement names it that changes its rows."""
    where: str


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
    return {place.table: rows for place, rows in _counted(store, runs)}


def delete_rows(store: Changes, runs: Runs) -> dict[str, int]:
    """Remove them; returns how many there were in each table."""
    counted = _counted(store, runs)
    for place, _ in counted:
        if place.table in FORGET:
            # Right before, so that a deletion that is tried again finds nothing to subtract twice.
            store.change(FORGET[place.table], runs.parameters())
        store.change(f"ALTER TABLE {place.changed} DELETE WHERE {place.where}", runs.parameters())
    # Always, should an earlier deletion have stopped here.
    _forget_names(store, runs.tenant)
    return {place.table: rows for place, rows in counted}


def _counted(store: Changes, runs: Runs) -> list[tuple[_Place, int]]:
    """The places that have rows of some runs, with their number."""
    found = []
    for place in _places(store):
        answer = store.select(
            f"SELECT count() FROM `{place.table}` WHERE {place.where}",
            runs.parameters(),
            fmt="TabSeparated",
        )
        found.append((place, int(answer)))
    return [(place, rows) for place, rows in found if rows]


def _places(store: Changes) -> list[_Place]:
    shards = Shards.of(store.rows(SHARDED))
    return [
        _Place(
            table=shards.name(kept),
            changed=shards.changed(shards.name(kept)),
            where=_where(tenant, trace, spans == "1"),
        )
        for kept, tenant, trace, spans in store.rows(query("deletable_tables"))
    ]


def _forget_names(store: Changes, tenant: str) -> None:
    """Names of spans and agents stand apart from them; those that none bears any more go too.

    They are asked for first: a replicated table takes no statement that has a question in it.
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
        # The large table is asked only about these, and most deletions empty nobody.
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
    """Which rows; the names are those of our own tables, the values are bound."""
    if trace == "trace_id":
        return f"`{tenant}` = {{tenant:String}} AND trace_id IN {{ids:Array(String)}}"
    which = "TraceId IN {otel:Array(String)}"
    if has_spans:
        which += " OR (TraceId IN {shared:Array(String)} AND SpanId IN {spans:Array(String)})"
    return f"`{tenant}` = {{tenant:String}} AND ({which})"
