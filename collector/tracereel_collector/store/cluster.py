"""The same schema for a cluster: replicated tables on every shard, and one name that reaches them all.

A table `t` becomes `t_local`, replicated within its shard, and `t`, distributed over the shards by
trace, so that a run is read from one of them. Doors (`Null` tables) and their views exist on every
node: whichever the collector inserts into decodes, and hands the rows on by trace. A view that reads
a table works on the shard's own part of it.
"""

import re

from tracereel_collector.errors import StartupError
from tracereel_collector.store.sql import migrations

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREATE = re.compile(
    r"(?P<verb>CREATE (?P<again>OR REPLACE )?(?P<what>TABLE|VIEW|MATERIALIZED VIEW))"
    r"(?: IF NOT EXISTS)? (?P<name>\w+)"
)
_DROP = re.compile(r"DROP (?P<what>VIEW|TABLE) IF EXISTS (?P<name>\w+)")
_ALTER = re.compile(r"ALTER TABLE (?P<name>\w+)")
_MERGE_TREE = re.compile(r"ENGINE\s*=\s*(?P<family>\w*MergeTree)(?:\s*\((?P<args>[^()]*)\))?")
_SHARD_COLUMNS = ("trace_id", "TraceId", "emitter_id")
"""The first that a table has: rows that belong together share a shard."""
_FORGETS = ("non_replicated_deduplication_window", "replicated_deduplication_window")


def cluster_schema(*, cluster: str, database: str) -> list[str]:
    """The statements that make the schema on a cluster, in order; each may be run again.

    Raises:
        StartupError: a name cannot be one, or a migration holds what is not known here.
    """
    for name in (cluster, database):
        if not _NAME.fullmatch(name):
            raise StartupError(f"{name!r} is not a name; expected letters, digits and underscores")
    made = [f"CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER {cluster}"]
    sharded: set[str] = set()
    for migration in migrations():
        for statement in migration.statements:
            made += _on_cluster(_without_comments(statement), cluster, database, sharded)
    return made


def _on_cluster(statement: str, cluster: str, database: str, sharded: set[str]) -> list[str]:
    if statement.startswith(("INSERT INTO ", "TRUNCATE TABLE ")):
        return []  # fills a later table from the rows of an earlier one: here there are none yet
    if (dropped := _DROP.fullmatch(statement)) is not None:
        names = [dropped["name"]]
        if dropped["name"] in sharded:
            sharded.discard(dropped["name"])
            names.append(f"{dropped['name']}_local")
        on = f"ON CLUSTER {cluster}"
        return [f"DROP {dropped['what']} IF EXISTS {database}.{name} {on}" for name in names]
    created, altered = _CREATE.match(statement), _ALTER.match(statement)
    if altered is not None:
        return _altered(statement, altered, cluster, database, sharded)
    if created is None:
        raise StartupError(
            f"a migration begins with what no cluster form is known for: {statement[:60]!r}"
        )
    name, rest = created["name"], statement[created.end() :]
    again = "" if created["again"] else "IF NOT EXISTS "
    head = f"{created['verb']} {again}{database}."
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
            f"{head}{name}_local{on}{local.replace(*_FORGETS)}",
            f"{head}{name}{on} AS {database}.{name}_local {spread}",
        ]
    if created["what"] == "MATERIALIZED VIEW":
        rest = _qualified_view(rest, database, sharded)
    elif created["what"] == "VIEW":
        rest = _qualified(rest, database, sharded, suffix="")
    return [f"{head}{name}{on}{rest}"]


def _replicated(engine: "re.Match[str]", name: str) -> str:
    """Its versions and columns go on behind where the replicas meet."""
    path = f"'/clickhouse/tables/{{shard}}/{{database}}/{name}_local', '{{replica}}'"
    more = f", {engine['args']}" if engine["args"] else ""
    return f"ENGINE = Replicated{engine['family']}({path}{more})"


def _altered(
    statement: str, altered: "re.Match[str]", cluster: str, database: str, sharded: set[str]
) -> list[str]:
    name, change = altered["name"], statement[altered.end() :]
    on = f" ON CLUSTER {cluster}"
    if change.lstrip().startswith("MODIFY QUERY"):
        change = _qualified(change, database, sharded, suffix=_suffix(change, sharded))
    if name not in sharded:
        return [f"ALTER TABLE {database}.{name}{on}{change}"]
    both = [f"ALTER TABLE {database}.{name}_local{on}{change}"]
    if re.match(r"\s*(ADD|MODIFY|DROP|RENAME) COLUMN", change):
        both.append(f"ALTER TABLE {database}.{name}{on}{change}")
    return both


def _qualified_view(rest: str, database: str, sharded: set[str]) -> str:
    """A view on a door writes to all shards; one on a table, to the part beside it."""
    target = re.match(r"\s+TO (\w+)", rest)
    if target is None:
        raise StartupError("a materialized view without TO has no form for a cluster")
    body = rest[target.end() :]
    suffix = _suffix(body, sharded)
    return f" TO {database}.{target[1]}{suffix}{_qualified(body, database, sharded, suffix=suffix)}"


def _suffix(body: str, sharded: set[str]) -> str:
    """A query of a view that reads a table reads the part of it that is on its shard."""
    reads_table = any(re.search(rf"\b(FROM|JOIN)\s+{name}\b", body) for name in sharded)
    return "_local" if reads_table else ""


def _qualified(text: str, database: str, sharded: set[str], *, suffix: str) -> str:
    for name in sharded:
        text = re.sub(rf"\b(FROM|JOIN)(\s+){name}\b", rf"\1\2{database}.{name}{suffix}", text)
    return re.sub(r"\b(FROM|JOIN)(\s+)(\w+_in)\b", rf"\1\2{database}.\3", text)


def _without_comments(statement: str) -> str:
    lines = [line for line in statement.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip()
