"""The cluster schema is generated from the same files and accepted by ClickHouse's parser."""

import re
import subprocess
import sys
import time
from datetime import date

import pytest

from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.cluster import cluster_schema
from tracereel_collector.store.deletion import RunsToDelete
from tracereel_collector.store.deletion import delete_rows as delete_runs
from tracereel_collector.store.retention import (
    Limits,
    delete_rows,
    drop_partitions,
    expired,
    forget_emitters,
    whole_partitions,
)
from tracereel_collector.store.sql import migrations, query

STATEMENTS = cluster_schema(cluster="prod", database="telemetry")
TABLES = [
    found.groups()
    for migration in migrations()
    for each in migration.statements
    if (found := re.search(r"(?s)CREATE TABLE (?:IF NOT EXISTS )?(\w+).*?ENGINE = (\w+)", each))
]


def test_clickhouse_parses_every_statement(new_store):
    for statement in STATEMENTS:
        shown = new_store.select("SELECT formatQuery({q:String})", {"q": statement}, fmt="RawBLOB")
        assert b"ON CLUSTER prod" in shown, statement


@pytest.mark.parametrize("table", [name for name, engine in TABLES if engine.endswith("MergeTree")])
def test_a_table_is_replicated_in_its_shard_and_spread_by_trace(table):
    made = [each for each in STATEMENTS if each.startswith("CREATE TABLE")]
    (local,) = [each for each in made if f"telemetry.{table}_local ON CLUSTER" in each]
    (spread,) = [each for each in made if f" telemetry.{table} ON CLUSTER" in each]

    assert re.search(r"ENGINE = Replicated\w*MergeTree\('/clickhouse/tables/\{shard\}/", local)
    assert "non_replicated_deduplication_window" not in local
    assert f"Distributed(prod, telemetry, {table}_local, " in spread
    if table == "event_content":
        assert spread.endswith("cityHash64(conversation))"), "repeated history meets on one shard"
    elif re.search(r"(?m)^    (trace_id|TraceId) ", local):
        assert re.search(r"cityHash64\((trace_id|TraceId)\)\)$", spread)


def test_every_replicated_table_remembers_tokens_by_number_and_for_weeks():
    replicated = [each for each in STATEMENTS if re.search(r"ENGINE = Replicated", each)]

    assert len(replicated) == len([engine for _, engine in TABLES if engine.endswith("MergeTree")])
    for local in replicated:
        settings = dict(re.findall(r"(\w+) = (\d+)", local[local.rindex("SETTINGS ") :]))
        assert int(settings["replicated_deduplication_window"]) >= 10_000, local
        # By default tokens are forgotten after an hour, however few there are.
        assert int(settings["replicated_deduplication_window_seconds"]) >= 14 * 86_400, local


def test_engine_has_the_settings_of_replicated_tables(new_store):
    """Checked by name: the embedded engine has no replicas but accepts their settings."""
    settings = {
        each.rpartition("SETTINGS ")[2]  # a column may have settings of its own before
        for each in STATEMENTS
        if "Replicated" in each
    }

    assert settings
    for number, setting in enumerate(sorted(settings)):
        new_store.command(
            f"CREATE TABLE s{number} (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS {setting}"
        )


def test_every_view_names_its_target_and_reads_local_tables():
    views = [each for each in STATEMENTS if "MATERIALIZED VIEW" in each]

    assert views
    for view in views:
        assert re.search(r" ON CLUSTER prod TO telemetry\.\w+", view)
        assert not re.search(r"\bFROM (agent_events|otel_spans|\w+_in)\b", view)


@pytest.mark.parametrize("name", ["a b", "x;DROP", "", "1a", "a'"])
def test_invalid_cluster_name_is_refused(name):
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


class Cluster:
    """Fake cluster node that describes its tables and records every statement.

    The embedded engine has no distributed tables, so their names are taken from the schema.
    """

    def __init__(self, engine):
        self.engine = engine
        self.statements = []

    def rows(self, statement):
        if statement == query("daily_tables"):
            daily = self.engine.rows(statement)
            return [(f"{table}_local", tenant, day) for table, tenant, day in daily]
        if statement == query("deletable_tables"):
            return [(f"{table}_local", *columns) for table, *columns in self.engine.rows(statement)]
        assert statement == query("sharded_tables")
        spread = "\n".join(each for each in STATEMENTS if "ENGINE = Distributed(" in each)
        found = re.findall(r"telemetry\.(\w+) ON .*Distributed\((\w+), telemetry, (\w+),", spread)
        return [(name, local, cluster) for name, cluster, local in found]

    def select(self, statement, parameters, *, fmt):
        self.statements.append(statement)
        if statement.startswith("SELECT count()"):
            return b"7\n"
        if statement in (query("gone_span_names"), query("emptied_agents")):
            return b'["a name"]\n' if parameters.get("after") != "a name" else b""
        if statement == query("agents_with_events"):
            return b""
        # Every table has two partitions with expired rows; the first holds nothing else.
        return b"20260101\n" if "HAVING" in statement else b"20260101\t5\n20260102\t3\n"

    def change(self, statement, parameters):
        self.statements.append(statement)


def test_deletion_counts_on_all_shards_and_removes_from_all_of_them(migrated):
    cluster = Cluster(migrated)
    runs = RunsToDelete(tenant="t", ids=["run"], otel=["0" * 32], shared=[], spans=[])

    gone = delete_runs(cluster, runs)

    assert {"agent_events", "otel_spans", "run_links", "score_tellings"} <= gone.keys()
    altered = []
    for statement in cluster.statements:
        shown = migrated.select(
            "SELECT formatQuery({q:String})", {"q": statement}, fmt="RawBLOB"
        ).decode()
        if statement.startswith("ALTER"):
            found = re.match(r"ALTER TABLE `?(\w+)_local`? ON CLUSTER `?prod`?\s", shown)
            assert found is not None, shown
            assert "SELECT" not in shown, "a replicated table takes no question in a change"
            altered.append(found[1])
        else:  # counts, and the sums of the deleted runs that are subtracted from the rollups
            assert "_local" not in shown, shown
    assert altered == [*gone, "span_names", "agent_hours", "agent_minutes"]
    assert list(gone)[-1] == "agent_events", "they tell what else belongs to a run"


def test_retention_reads_all_shards_and_changes_all_of_them(migrated):
    cluster = Cluster(migrated)
    limits = Limits({"short": date(2026, 5, 1), "forever": None}, date(2026, 1, 1))

    found = list(expired(cluster, limits, Dating(now_nano=time.time_ns())))
    forget_emitters(cluster, "emitters", "t", ["emt"])
    for each in found:
        drop_partitions(cluster, each, whole_partitions(cluster, each))
        delete_rows(cluster, each, ["20260102"])

    assert {"agent_events", "otel_spans", "run_links", "score_tellings"} <= {
        each.table for each in found
    }
    assert found[0].table != "agent_events", "what is derived from the events goes before them"
    for statement in cluster.statements:
        shown = migrated.select(
            "SELECT formatQuery({q:String})", {"q": statement}, fmt="RawBLOB"
        ).decode()
        if statement.startswith("ALTER"):
            assert re.match(r"ALTER TABLE `?\w+_local`? ON CLUSTER `?prod`?\s", shown), shown
        else:
            assert not re.search(r"FROM `?\w+_local", shown), shown
    dropped = [each for each in cluster.statements if "DROP PARTITION ID '20260101'" in each]
    deleted = [each for each in cluster.statements if "DELETE IN PARTITION ID '20260102'" in each]
    assert len(dropped) == len(deleted) == len(found)


@pytest.mark.parametrize(
    "engine_full",
    [
        "Distributed('prod', 'telemetry', 'spans_local', cityHash64(TraceId))",
        "Distributed(prod, telemetry, spans_local, rand())",
    ],
)
def test_local_table_is_read_from_the_distributed_engine(migrated, engine_full):
    asked = query("sharded_tables")
    columns = asked[asked.index("extract(") : asked.index("FROM system.tables")]

    found = migrated.select(
        f"SELECT {columns} FROM (SELECT {{full:String}} AS engine_full)",
        {"full": engine_full},
        fmt="TabSeparated",
    )

    assert found == b"spans_local\tprod\n"


@pytest.mark.parametrize("engine", ["Distributed", "ReplicatedMergeTree", "SharedMergeTree"])
def test_rows_that_a_replica_does_not_have_yet_are_not_inserted_again(engine):
    class Lagging(ClickHouseStore):
        def select(self, statement, parameters, *, fmt):
            return f"{engine}\n".encode() if "system.tables" in statement else b""

    address = StoreAddress.parse("clickhouse://nowhere.invalid/telemetry")
    store = Lagging(address, query_seconds=1, query_memory_bytes=1 << 20)
    body = QueuedBody(
        id=1,
        kind=Kind.EVENTS,
        tenant="default",
        first_sequence_number=1,
        records=1,
        received_unix_nano=time.time_ns(),
        data=b"{}",
    )

    assert store.missing(Kind.EVENTS, [body]) == []
