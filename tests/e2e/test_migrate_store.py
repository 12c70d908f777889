"""Copying an embedded store into a server: complete, once, despite interruptions."""

import json
import os
import shutil
import subprocess
import sys
import uuid

import clickhouse_connect
import pytest

from tests.support.clickhouse_cluster import new_cluster_database
from tests.support.clickhouse_server import new_database
from tests.support.collector import CollectorProcess, http
from tests.support.conservation import conserved
from tests.support.waiting import wait_until
from tracereel_collector.engine import EngineSettings, Supervisor

CRASHED = 137


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return the data directory of a collector that was killed with a non-empty queue."""
    collector = CollectorProcess(
        tmp_path_factory.mktemp("embedded"), environ={"TRACEREEL_LINGER_SECONDS": "3"}
    ).start()
    demo = [sys.executable, "-m", "tracereel", "demo", "--runs", "6", "--interval", "0"]
    subprocess.run([*demo, "--endpoint", collector.url], check=True, capture_output=True)
    wait_until(lambda: collector.metric("tracereel_records_pending", kind="events") == 0)
    trace = http("GET", f"{collector.url}/v1/traces").json()["traces"][0]["trace_id"]
    score = json.dumps({"trace_id": trace, "name": "good", "value": 1}).encode()
    assert http("POST", f"{collector.url}/v1/scores?wait=stored", score).status == 200
    events = [
        {
            "event_id": f"last-{n}",
            "event_type": "custom.last",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": "trc_last",
        }
        for n in range(10)
    ]
    assert collector.post_events(events, wait=False).status == 200
    collector.kill()
    return collector.data_dir


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return a second engine, reached over HTTP like a server."""
    with Supervisor(EngineSettings(store_dir=tmp_path_factory.mktemp("server"))) as running:
        yield running


@pytest.fixture
def database(server):
    """Return the DSN and a client of a fresh database."""
    name = f"db_{uuid.uuid4().hex}"
    client = clickhouse_connect.get_client(
        host=server.host, port=server.port, username="u", password=server.secret
    )
    client.command(f"CREATE DATABASE {name} ENGINE = Atomic")
    client.close()
    client = clickhouse_connect.get_client(
        host=server.host, port=server.port, username="u", password=server.secret, database=name
    )
    yield f"http://u:{server.secret}@{server.host}:{server.port}/{name}", client
    client.close()


@pytest.fixture
def embedded(source, tmp_path):
    # Keep symbolic links: chDB does not open a store copied through them.
    return shutil.copytree(source, tmp_path / "data", symlinks=True)


def migrate(data_dir, to, **environ):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "migrate-store"),
            *("--to", to, "--data-dir", str(data_dir)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout, done.stderr


def contents(client, table):
    """Return all rows of a table as text, in any order."""
    final = "" if table == "agent_events" else "FINAL"
    # Tags are a set: their order depends on how parts were merged.
    shown = "* REPLACE (arraySort(tags) AS tags)" if table == "trace_summaries" else "*"
    return sorted(client.raw_query(f"SELECT {shown} FROM {table} {final}", fmt="TSV").splitlines())


@pytest.mark.fault
def test_interrupted_migration_resumes_and_copies_every_row_once(
    embedded, database, new_collector, tmp_path
):
    to, client = database
    interrupted = 0
    while (result := migrate(embedded, to, TRACEREEL_CRASH_AT="partition_copied:4"))[0] == CRASHED:
        interrupted += 1
    status, message, errors = result

    assert (status, errors) == (0, ""), message
    assert interrupted > 1
    assert "the same there as here" in message
    with Supervisor(EngineSettings(store_dir=embedded / "store")) as here:
        original = clickhouse_connect.get_client(
            host=here.host, port=here.port, username="u", password=here.secret, database="tracereel"
        )
        for table in ("agent_events", "trace_summaries", "agent_minutes", "score_tellings"):
            assert contents(client, table) == contents(original, table) != [], table
        emitters = "SELECT emitter_id, groupBitmapMerge(numbers) FROM emitter_numbers GROUP BY 1 ORDER BY 1"
        assert client.query(emitters).result_rows == original.query(emitters).result_rows != []
        original.close()
    assert client.query("SHOW TABLES LIKE 'copy_of%'").result_rows == []

    # The collector continues with the same data directory: queue, views and numbers still work.
    events = client.query("SELECT count() FROM agent_events").result_rows[0][0]
    collector = new_collector(
        embedded, arguments=("--store", to.replace("http://", "clickhouse://"))
    ).start()
    assert collector.replay("trc_last").json()["summary"]["total_events"] == 10
    new = {
        "event_id": "new",
        "event_type": "custom.new",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "trc_last",
    }
    assert collector.post_events([new]).json()["status"] == "stored"
    assert client.query("SELECT count() FROM agent_events").result_rows == [(events + 1,)]
    assert conserved(collector)["stored"] == events + 1
    collector.stop()

    status, _, errors = migrate(embedded, to)
    assert status == 2
    assert "the stores differ" in errors


def test_repeated_migration_only_compares_rows(embedded, database):
    to, client = database
    assert migrate(embedded, to)[0] == 0
    before = contents(client, "agent_events")

    status, message, _ = migrate(embedded, to)
    assert status == 0
    assert "the same there as here" in message
    assert contents(client, "agent_events") == before

    client.command("TRUNCATE TABLE store_copies")
    status, _, errors = migrate(embedded, to)
    assert status == 2
    assert "that are not of this copy" in errors
    assert len(errors.splitlines()) == 1
    assert contents(client, "agent_events") == before


def test_a_store_that_is_being_served_is_not_copied(collector, database):
    status, _, errors = migrate(collector.data_dir, database[0])

    assert status == 2
    assert "a collector runs on" in errors
    assert "stop it first" in errors


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("ftp://host/db", "expected clickhouse[s]://"),
        ("http://127.0.0.1:9/db", "the store does not answer"),
    ],
)
def test_invalid_migration_target_is_an_error(embedded, to, message):
    status, _, errors = migrate(embedded, to)

    assert status == 2
    assert message in errors


def drop(dsn):
    server, _, name = dsn.rpartition("/")
    client = clickhouse_connect.get_client(dsn=server)
    client.command(f"DROP DATABASE IF EXISTS `{name}` SYNC")
    client.close()


@pytest.fixture
def on_server(clickhouse_server):
    dsn = new_database(clickhouse_server)
    yield dsn
    drop(dsn)


@pytest.fixture
def on_cluster():
    database = new_cluster_database()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "schema", "apply", "--store", database.dsns[0]),
            *("--nodes", database.nodes),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield database.dsns[0]
    database.drop()


@pytest.mark.parametrize("target", ["on_server", "on_cluster"])
def test_copy_into_clickhouse_has_every_row(request, embedded, target):
    to = request.getfixturevalue(target)
    status, _, errors = migrate(embedded, to, TRACEREEL_CRASH_AT="partition_copied:4")
    assert status == CRASHED, errors

    status, message, errors = migrate(embedded, to)

    assert (status, errors) == (0, ""), message
    assert "the same there as here" in message
    client = clickhouse_connect.get_client(dsn=to)
    with Supervisor(EngineSettings(store_dir=embedded / "store")) as here:
        original = clickhouse_connect.get_client(
            host=here.host, port=here.port, username="u", password=here.secret, database="tracereel"
        )
        for table in ("agent_events", "trace_summaries", "agent_minutes", "score_tellings"):
            assert contents(client, table) == contents(original, table) != [], table
        original.close()
    assert client.query("SHOW TABLES LIKE 'copy_%'").result_rows == []
    client.close()
