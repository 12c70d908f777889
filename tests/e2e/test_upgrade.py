"""Data directories of other versions are refused in one line and not changed."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import clickhouse_connect
import pytest

from tests.support.collector import CollectorProcess
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.store.sql import migrations


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Return the data directory of a stopped collector."""
    collector = CollectorProcess(tmp_path_factory.mktemp("stopped")).start()
    assert collector.stop() == 0
    return collector.data_dir


@pytest.fixture
def data_dir(stopped, tmp_path):
    # Keep symbolic links: chDB does not open a store copied through them.
    return shutil.copytree(stopped, tmp_path / "data", symlinks=True)


def refused(data_dir):
    """Return exit status and standard error of a failed start."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "serve", "--port", "0"),
            *("--grpc-port", "off", "--data-dir", str(data_dir)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "TRACEREEL_STOP_SECONDS": "5"},
    )
    return done.returncode, done.stderr


def on_store(data_dir, *statements):
    """Run statements on the store of a data directory; return its schema records."""
    with Supervisor(EngineSettings(store_dir=data_dir / "store")) as engine:
        client = clickhouse_connect.get_client(
            host=engine.host,
            port=engine.port,
            username="u",
            password=engine.secret,
            database="tracereel",
        )
        for statement in statements:
            client.command(statement)
        found = client.query("SELECT * FROM schema_migrations ORDER BY number").result_rows
        client.close()
    return found


def test_a_store_of_a_newer_version_is_refused_in_one_line_and_not_touched(data_dir):
    before = on_store(
        data_dir, "INSERT INTO schema_migrations (number, name, checksum) SELECT 9999, 'later', 'x'"
    )

    status, said = refused(data_dir)

    assert status == 2
    assert said == (
        "tracereel serve: the store has migrations [9999] that this version of tracereel does not know"
        " (install the newer tracereel that wrote it, or restore a backup from before)\n"
    )
    assert on_store(data_dir) == before


def test_a_store_of_another_development_version_is_refused_in_one_line_and_not_touched(data_dir):
    before = on_store(
        data_dir,
        "ALTER TABLE schema_migrations UPDATE checksum = 'x' WHERE number = 1",
        "DROP TABLE retention_rules",
    )

    status, said = refused(data_dir)

    assert status == 2
    assert said == (
        "tracereel serve: the store was made with schema 0001_events (x) of a development version,"
        f" this version expects 0001_events ({migrations()[0].checksum}) (start with a new --data-dir"
        " or database, or export with the version that wrote it)\n"
    )
    assert on_store(data_dir) == before


def test_a_queue_of_a_newer_version_is_refused_in_one_line(data_dir):
    path = data_dir / "queue" / "queue.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as queue:
        queue.execute("UPDATE meta SET value = 4 WHERE key = 'schema'")

    status, said = refused(data_dir)

    assert status == 2
    assert len(said.splitlines()) == 1
    assert "has schema 4, this version of tracereel reads 3" in said
    assert "start the version that wrote it" in said
