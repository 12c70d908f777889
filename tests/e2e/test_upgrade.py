"""Upgrades: an old data directory is opened by this version, a newer one is left alone.

`fixtures/data-dir-0020.tar.xz` is the data directory of a collector that had migrations up to 0020, ran
three times the demo, took a span, and was killed with five events in its queue. Should it be refused
because a migration is not the one it was made with, then so would be the stores of all who upgrade: the
SQL of a migration, whatever it is generated from, must not change any more.
"""

import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import clickhouse_connect
import pytest

from tests.support.collector import http
from tests.support.conservation import conserved
from tests.support.waiting import wait_until
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.store.sql import migrations

OLD = Path(__file__).parent / "fixtures" / "data-dir-0020.tar.xz"
LONG_AGO = "2026-01-01T00:00:00Z"
DEMO_RUN = "76e6390a45112ffc18ed07a362e04a02"


@pytest.fixture
def old(tmp_path):
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path / "old", filter="tar")
    return tmp_path / "old"


def refused(data_dir):
    """A start that fails: its exit status and what it says."""
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


def test_an_old_data_directory_is_opened_delivered_and_read(old, new_collector):
    collector = new_collector(old).start()

    prepared = [line for line in collector.output if "store_prepared" in line]
    assert len(prepared) == 1, "one line, however much there was to do"
    wait_until(lambda: collector.metric("tracereel_records_pending", kind="events") == 0)
    assert collector.replay("trc_waiting").json()["summary"]["total_events"] == 5
    run = collector.replay(DEMO_RUN).json()
    assert run["summary"]["agents_executed"]
    found = {
        each["trace_id"]
        for each in http("GET", f"{collector.url}/v1/traces?from={LONG_AGO}").json()["traces"]
    }
    assert {DEMO_RUN, "trc_waiting"} <= found
    assert len(http("GET", f"{collector.url}/v1/agents?from={LONG_AGO}").json()["agents"]) >= 1
    counted = conserved(collector)
    assert counted["stored"] == counted["appended"] >= 40
    new = {
        "event_id": "new",
        "event_type": "custom.new",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "trc_new",
    }
    assert collector.post_events([new]).json()["status"] == "stored"
    collector.stop()

    # From the next start on there is nothing to do.
    collector.start()
    assert [line for line in collector.output if "store_prepared" in line] == []


def test_a_store_of_a_newer_version_is_refused_in_one_line_and_not_touched(old):
    with Supervisor(EngineSettings(store_dir=old / "store")) as engine:
        client = clickhouse_connect.get_client(
            host=engine.host,
            port=engine.port,
            username="u",
            password=engine.secret,
            database="tracereel",
        )
        client.command(
            "INSERT INTO schema_migrations (number, name, checksum) SELECT 9999, 'later', 'x'"
        )
        client.close()

    status, said = refused(old)

    assert status == 2
    assert said == (
        "tracereel serve: the store has migrations [9999] that this version of tracereel does not know"
        " (install the newer tracereel that wrote it, or restore a backup from before)\n"
    )
    with Supervisor(EngineSettings(store_dir=old / "store")) as engine:
        client = clickhouse_connect.get_client(
            host=engine.host,
            port=engine.port,
            username="u",
            password=engine.secret,
            database="tracereel",
        )
        applied = client.query("SELECT max(number) FROM schema_migrations WHERE number < 9999")
        tables = client.query("SHOW TABLES LIKE 'retention_rules'").result_rows
        client.close()
    assert applied.result_rows == [(20,)]
    assert tables == []
    assert max(each.number for each in migrations()) > 20


def test_a_queue_of_a_newer_version_is_refused_in_one_line(old):
    with closing(sqlite3.connect(old / "queue" / "queue.sqlite", isolation_level=None)) as queue:
        queue.execute("UPDATE meta SET value = 2 WHERE key = 'schema'")

    status, said = refused(old)

    assert status == 2
    assert len(said.splitlines()) == 1
    assert "has schema 2, this version of tracereel reads 1" in said
    assert "start the version that wrote it" in said
