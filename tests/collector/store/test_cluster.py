"""The cluster's schema is made from the same files, and ClickHouse's own parser reads all of it."""

import re
import subprocess
import sys

import pytest

from tracereel_collector.errors import StartupError
from tracereel_collector.store.cluster import cluster_schema
from tracereel_collector.store.sql import migrations

STATEMENTS = cluster_schema(cluster="prod", database="telemetry")
TABLES = re.findall(
    r"CREATE TABLE (\w+)[^;]*?ENGINE = (\w+)",
    ";".join(each for migration in migrations() for each in migration.statements),
)


def test_clickhouse_parses_every_statement(new_store):
    for statement in STATEMENTS:
        shown = new_store.select("SELECT formatQuery({q:String})", {"q": statement}, fmt="RawBLOB")
        assert b"ON CLUSTER prod" in shown, statement


@pytest.mark.parametrize("table", [name for name, engine in TABLES if engine.endswith("MergeTree")])
def test_a_table_is_replicated_in_its_shard_and_spread_by_trace(table):
    (local,) = [each for each in STATEMENTS if f"telemetry.{table}_local ON CLUSTER" in each]
    (spread,) = [each for each in STATEMENTS if f" telemetry.{table} ON CLUSTER" in each]

    assert re.search(r"ENGINE = Replicated\w*MergeTree\('/clickhouse/tables/\{shard\}/", local)
    assert "non_replicated_deduplication_window" not in local
    assert f"Distributed(prod, telemetry, {table}_local, " in spread
    if re.search(r"(?m)^    (trace_id|TraceId) ", local):
        assert re.search(r"cityHash64\((trace_id|TraceId)\)\)$", spread)


def test_every_view_reads_and_writes_where_it_is_told_to():
    views = [each for each in STATEMENTS if "MATERIALIZED VIEW" in each]

    assert views
    for view in views:
        assert re.search(r" ON CLUSTER prod TO telemetry\.\w+", view)
        assert not re.search(r"\bFROM (agent_events|otel_spans|\w+_in)\b", view)


@pytest.mark.parametrize("name", ["a b", "x;DROP", "", "1a", "a'"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(StartupError, match="is not a name"):
        cluster_schema(cluster=name, database="telemetry")


def test_the_command_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "schema", "--cluster", "prod"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.count("ON CLUSTER prod") == len(STATEMENTS)
