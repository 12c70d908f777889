"""Deletion of the rows of runs from every table, waiting until they are removed."""

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from tracereel._redact.event_redaction import owner_forms, owner_key
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store import settings as sent
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.rollup_agents import SUBTRACTIONS
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query

MAX_TRACES = 5_000
"""Runs per statement; a user with more is deleted in several statements."""
MAX_NAMES = 5_000
"""Names of spans or agents per statement."""
MAX_ROUNDS = 200
"""Statements per deletion; the next deletion continues with the rest."""
_OTEL_ID = re.compile(r"[0-9a-f]{32}")
_Shared = tuple[str, int, list[str]]


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
        return {**asdict(self), "ids": sorted({*self.ids, *self.otel})}


def runs_of(store: ClickHouseStore, tenant: str, ids: list[str]) -> RunsToDelete:
    """Return the runs with their OpenTelemetry traces and spans."""
    found = _select(store, _Shared, "otel_traces_of_runs", tenant=tenant, ids=ids)
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


def traces_of_user(
    store: ClickHouseStore, tenant: str, user_id: str, *, done: set[str]
) -> list[str]:
    """Return runs of a user, hashed or not, that are not in `done`, at most `MAX_TRACES`."""
    limit = MAX_TRACES + len(done)
    forms = list(owner_forms(user_id))
    found = _names(store, "traces_of_user", tenant=tenant, user_ids=forms, limit=limit)
    return [name for name in found if name not in done][:MAX_TRACES]


def spans_of_user(store: ClickHouseStore, tenant: str, user_id: str) -> RunsToDelete:
    """Return the spans of a user in traces that are shared with other runs."""
    asked = {"tenant": tenant, "user_ids": list(owner_forms(user_id)), "limit": MAX_TRACES}
    found = _select(store, tuple[str, str], "spans_of_user", **asked)
    return RunsToDelete(
        tenant=tenant,
        ids=[],
        otel=[],
        shared=sorted({trace for trace, _ in found}),
        spans=sorted({span for _, span in found}),
    )


def count_rows(store: ClickHouseStore, runs: RunsToDelete) -> dict[str, int]:
    """Return the number of rows of the runs by table, without empty tables."""
    return {table: rows for table, _, rows in _counted(store, Shards.of(store), runs)}


def delete_rows(store: ClickHouseStore, runs: RunsToDelete) -> dict[str, int]:
    """Delete the rows of the runs; return their number by table.

    Raises:
        StoreUnavailableError: rows are still being deleted: subtracting them twice would be wrong.
    """
    shards = Shards.of(store)
    counted = _counted(store, shards, runs)
    _forget_sessions(store, shards, runs)
    for table, where, _ in counted:
        if table in SUBTRACTIONS:
            for shard in shards.numbers:
                _subtract(store, shards, table, runs, shard)
        shards.alter(table, f"DELETE WHERE {where}", runs.parameters())
    # Unconditional, because an earlier deletion may have been interrupted here.
    _forget_names(store, shards, runs.tenant)
    return {table: rows for table, _, rows in counted}


def catch_up(store: ClickHouseStore) -> list[str]:
    """Wait until replicas of a cluster have each other's rows; return those that lack some."""
    return Shards.of(store).catch_up()


def unfinished(store: ClickHouseStore) -> list[str]:
    """Return the replicas of a cluster that still have deleted rows, or are away."""
    return Shards.of(store).unfinished()


def _counted(
    store: ClickHouseStore, shards: Shards, runs: RunsToDelete
) -> list[tuple[str, str, int]]:
    """Return the tables with rows of the runs: name, condition, number of rows."""
    found = []
    for kept, tenant, trace, spans in store.rows(query("deletable_tables")):
        name, where = shards.name(kept), _where(tenant, trace, spans == "1")
        counting = f"SELECT count() FROM `{name}` WHERE {where}"
        if rows := int(store.select(counting, runs.parameters(), fmt="TabSeparated")):
            found.append((name, where, rows))
    return found


def _subtract(
    store: ClickHouseStore, shards: Shards, table: str, runs: RunsToDelete, shard: int
) -> None:
    """Take the rows of runs on a shard out of the rollup of agents, each row once.

    The token follows from the rows: a deletion that was interrupted before the rows were deleted, or one
    at another collector at the same time, inserts the same. One that is deleting rows would change them
    between the two queries.
    """
    subtraction, given = SUBTRACTIONS[table], {**runs.parameters(), "shard": shard}
    state = store.select(subtraction.state, given, fmt="TabSeparated")
    if busy := shards.still_deletes(table):
        raise StoreUnavailableError(
            f"an earlier deletion is not finished at {', '.join(busy)}",
            hint="ask again; a replica may wait for rows that only one has that is away",
        )
    if rows := store.select(subtraction.rows, given, fmt="JSONEachRow"):
        of_rows = f"{table} {runs.tenant} {shard} ".encode() + state
        token = f"deleted-{hashlib.sha256(of_rows).hexdigest()}"
        settings = {**sent.INSERT, "insert_deduplication_token": token}
        store.put("agent_minutes", rows, fmt="JSONEachRow", settings=settings)


def _forget_sessions(store: ClickHouseStore, shards: Shards, runs: RunsToDelete) -> None:
    """Delete the scores of sessions that have no other runs than these."""
    tenant, ids = runs.tenant, runs.parameters()["ids"]
    sessions = _names(store, "sessions_of_runs", tenant=tenant, ids=ids)
    left = _names(store, "sessions_with_runs", tenant=tenant, ids=ids, sessions=sessions)
    if keys := sorted({owner_key(name) for name in {*sessions} - {*left}}):
        shards.alter(
            "score_tellings",
            "DELETE WHERE tenant = {tenant:String} AND trace_id = ''"
            " AND session_key IN {keys:Array(String)}",
            {"tenant": tenant, "keys": keys},
        )


def _forget_names(store: ClickHouseStore, shards: Shards, tenant: str) -> None:
    """Delete names of spans and agents that no row uses any more.

    They are selected first: a mutation of a replicated table must not contain a subquery.
    """

    def forget(table: str, column: str, owner: str, names: list[str]) -> None:
        if names:
            shards.alter(
                table,
                f"DELETE WHERE {owner} = {{tenant:String}} AND {column} IN {{names:Array(String)}}",
                {"tenant": tenant, "names": names},
            )

    for _ in range(MAX_ROUNDS):
        names = _names(store, "gone_span_names", tenant=tenant, limit=MAX_NAMES)
        forget("span_names", "SpanName", "TenantId", names)
        if len(names) < MAX_NAMES:
            break
    after = ""
    for _ in range(MAX_ROUNDS):
        emptied = _names(store, "emptied_agents", tenant=tenant, after=after, limit=MAX_NAMES)
        if not emptied:
            break
        # Query the large table only about these; most deletions leave no agent empty.
        still = set(_names(store, "agents_with_events", tenant=tenant, names=emptied))
        for table in ("agent_hours", "agent_minutes"):
            forget(table, "agent", "tenant", [name for name in emptied if name not in still])
        after = emptied[-1]


def _select(store: ClickHouseStore, row: Any, name: str, /, **parameters: Any) -> list[Any]:
    answer = store.select(query(name), parameters, fmt="JSONCompactEachRow")
    found: list[Any] = msgspec.json.Decoder(row).decode_lines(answer)
    return found


def _names(store: ClickHouseStore, name: str, /, **parameters: Any) -> list[str]:
    return [row[0] for row in _select(store, tuple[str], name, **parameters)]


def _where(tenant: str, trace: str, has_spans: bool) -> str:
    """Return the condition; names are from our own tables, values are bound."""
    if trace == "trace_id":
        return f"`{tenant}` = {{tenant:String}} AND trace_id IN {{ids:Array(String)}}"
    which = "TraceId IN {otel:Array(String)}"
    if has_spans:
        which += " OR (TraceId IN {shared:Array(String)} AND SpanId IN {spans:Array(String)})"
    return f"`{tenant}` = {{tenant:String}} AND ({which})"
