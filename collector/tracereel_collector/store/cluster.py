"""Cluster form of the schema: replicated tables on every shard, distributed tables over them.

A table `t` becomes `t_local`, replicated within its shard, and `t`, distributed over the shards by
trace, so that a run is read from one shard. `Null` tables and their views exist on every node: the
node that receives an insert decodes it and distributes the rows by trace. A view that reads a table
reads the local part of its shard.
"""

import re

from tracereel_collector.errors import StartupError
from tracereel_collector.store.sql import migrations, without_comments

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREATE = re.compile(r"CREATE (?P<what>TABLE|VIEW|MATERIALIZED VIEW) (?P<name>\w+)")
_MERGE_TREE = re.compile(r"ENGINE\s*=\s*(?P<family>\w*MergeTree)(?:\s*\((?P<args>[^()]*)\))?")
_SHARD_COLUMNS = ("conversation", "trace_id", "TraceId", "emitter_id")
"""Sharding columns, the first that a table has: related rows share a shard."""
WINDOW_SECONDS = 28 * 24 * 3600
"""Time for which replicas remember tokens; a batch delayed longer could be stored twice."""
# Non-replicated tables limit tokens by number only; replicated ones also by age, by default an hour.
_WINDOW = (
    "non_replicated_deduplication_window =",
    f"replicated_deduplication_window_seconds = {WINDOW_SECONDS}, replicated_deduplication_window =",
)


def cluster_schema(*, cluster: str, database: str) -> list[str]:
    """Return the statements that create the schema on a cluster, in order; all are repeatable."""
    for name in (cluster, database):
        if not _NAME.fullmatch(name):
            raise StartupError(f"{name!r} is not a name; expected letters, digits and underscores")
    made = [f"CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER {cluster}"]
    sharded: set[str] = set()
    for migration in migrations():
        for statement in migration.statements:
            made += _on_cluster(without_comments(statement), cluster, database, sharded)
    return made


def _on_cluster(statement: str, cluster: str, database: str, sharded: set[str]) -> list[str]:
    created = _CREATE.match(statement)
    if created is None:
        raise StartupError(
            f"a migration begins with what no cluster form is known for: {statement[:60]!r}"
        )
    name, rest = created["name"], statement[created.end() :]
    head = f"CREATE {created['what']} IF NOT EXISTS {database}."
    on = f" ON CLUSTER {cluster}"
    engine = _MERGE_TREE.search(rest)
    if created["what"] == "TABLE" and engine is not None:
        sharded.add(name)
        key = next(
            (f"cityHash64({column})" for column in _SHARD_COLUMNS if f"\n    {column} " in rest),
            "rand()",
        )
        local = rest[: engine.start()] + _replicated(engine, name) + rest[engine.end() :]
        spread = f"ENGINE = Distributed({cluster}, {database}, {name}_local, {key})"
        return [
            f"{head}{name}_local{on}{local.replace(*_WINDOW)}",
            f"{head}{name}{on} AS {database}.{name}_local {spread}",
        ]
    if created["what"] == "MATERIALIZED VIEW":
        rest = _qualified_view(rest, database, sharded)
    elif created["what"] == "VIEW":
        rest = _qualified(rest, database, sharded, suffix="")
    return [f"{head}{name}{on}{rest}"]


def _replicated(engine: "re.Match[str]", name: str) -> str:
    """Return the replicated engine: path and replica, then the engine's own arguments."""
    path = f"'/clickhouse/tables/{{shard}}/{{database}}/{name}_local', '{{replica}}'"
    more = f", {engine['args']}" if engine["args"] else ""
    return f"ENGINE = Replicated{engine['family']}({path}{more})"


def _qualified_view(rest: str, database: str, sharded: set[str]) -> str:
    """Qualify a view. On a `Null` table it writes to all shards, on a table to the local part."""
    target = re.match(r"\s+TO (\w+)", rest)
    if target is None:
        raise StartupError("a materialized view without TO has no form for a cluster")
    body = rest[target.end() :]
    reads_table = any(re.search(rf"\b(FROM|JOIN)\s+{name}\b", body) for name in sharded)
    suffix = "_local" if reads_table else ""
    return f" TO {database}.{target[1]}{suffix}{_qualified(body, database, sharded, suffix=suffix)}"


def _qualified(text: str, database: str, sharded: set[str], *, suffix: str) -> str:
    for name in sharded:
        text = re.sub(rf"\b(FROM|JOIN)(\s+){name}\b", rf"\1\2{database}.{name}{suffix}", text)
    return re.sub(r"\b(FROM|JOIN)(\s+)(\w+_in)\b", rf"\1\2{database}.\3", text)
