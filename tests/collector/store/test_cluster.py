"""Form of the schema on a cluster: from the same files as that of one server."""

import re
import subprocess
import sys
import time

import pytest

from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.layout import SERVER, Layout
from tracereel_collector.store.sql import migrations, without_comments


def statements_of(layout):
    return [
        without_comments(statement)
        for migration in migrations(layout=layout)
        for statement in migration.statements
    ]


STATEMENTS = statements_of(Layout("prod"))
TABLES = [
    found.groups()
    for each in statements_of(SERVER)
    if (found := re.search(r"(?s)CREATE TABLE IF NOT EXISTS (\w+).*?ENGINE = (\w+)", each))
]
STORED = [name for name, engine in TABLES if engine.endswith("MergeTree")]


def test_clickhouse_parses_every_statement(new_store):
    for statement in STATEMENTS:
        new_store.select("SELECT formatQuery({q:String})", {"q": statement}, fmt="RawBLOB")


def test_one_server_has_no_statement_for_a_cluster():
    shown = "\n".join(statements_of(SERVER))

    assert not re.search(r"Replicated|Distributed|_local\b|\{shard\}", shown)
    assert "$" not in shown.replace("$'", "")


@pytest.mark.parametrize("table", STORED)
def test_a_table_is_replicated_in_its_shard_and_spread_by_what_is_in_the_row(table):
    made = [each for each in STATEMENTS if each.startswith("CREATE TABLE")]
    (local,) = [each for each in made if f" EXISTS {table}_local\n" in each]
    (spread,) = [each for each in made if f" EXISTS {table} AS {table}_local\n" in each]

    assert re.search(r"ENGINE = Replicated\w*MergeTree\('/clickhouse/tables/\{shard\}/", local)
    assert "non_replicated_deduplication_window" not in local
    assert f"Distributed('prod', currentDatabase(), '{table}_local', cityHash64(" in spread
    assert "rand()" not in spread, "a repeated insert must reach the same shards"
    if table == "event_content":
        assert spread.endswith("cityHash64(conversation))"), "repeated history meets on one shard"
    elif table == "score_tellings":
        assert spread.endswith("cityHash64(trace_id, session_key))"), "of a run, or of a session"
    elif re.search(r"(?m)^    (trace_id|TraceId) ", local):
        assert re.search(r"cityHash64\((trace_id|TraceId)\)\)$", spread)


def test_every_replicated_table_remembers_tokens_by_number_and_for_weeks():
    replicated = [each for each in STATEMENTS if re.search(r"ENGINE = Replicated", each)]

    assert len(replicated) == len(STORED)
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


def test_views_of_stored_tables_read_and_write_the_local_part():
    views = [each for each in STATEMENTS if each.startswith("CREATE MATERIALIZED VIEW")]

    assert views
    for view in views:
        target = re.search(r" TO (\w+)", view)[1]
        reads = set(re.findall(r"\bFROM (\w+)", view[view.index(" AS") :]))
        stored = {name for name in reads if name.removesuffix("_local") in STORED}
        assert all(name.endswith("_local") for name in stored), view
        assert target.endswith("_local") == bool(stored), view


@pytest.mark.parametrize("name", ["a b", "x;DROP", "1a", "a'"])
def test_invalid_cluster_name_is_refused(name):
    with pytest.raises(StartupError, match="is not the name of a cluster"):
        Layout(name)


def test_the_command_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "schema", "print", "--cluster", "prod"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.count(";\n\n") == len(STATEMENTS)


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
