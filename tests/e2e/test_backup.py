"""Backups: taken under load, restored elsewhere, nothing missing or duplicated."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from tests.support.clickhouse_cluster import (
    BACKUP_DISK,
    ClusterDatabase,
    apply_schema,
    new_cluster_database,
)
from tests.support.clickhouse_server import backup_disk, new_database
from tests.support.collector import CollectorProcess
from tests.support.conservation import conserved
from tests.support.oracle_process import Oracle
from tests.support.store_client import store_client
from tests.support.waiting import wait_until
from tracereel_collector.config import Settings
from tracereel_collector.ops.backup.restore import restore_backup


def tracereel(*words, env=None):
    """Run a command as a user does; return exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    return done.returncode, done.stdout, done.stderr


def event(number, **more):
    return {
        "event_id": f"evt-{number}",
        "event_type": "custom.backup",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": f"backup-{number % 7}",
        **more,
    }


def delivered(collector):
    wait_until(
        lambda: collector.metric("tracereel_records_pending", kind="events") == 0, timeout=60
    )
    return conserved(collector)


@pytest.mark.fault
def test_a_backup_under_load_restores_to_what_was_acknowledged_once(new_collector, tmp_path):
    """Two workers, senders that never stop, and a queue that is never empty."""
    collector = new_collector(
        environ={"TRACEREEL_WORKERS": "2", "TRACEREEL_LINGER_SECONDS": "2"}
    ).start()
    oracle = Oracle(collector.url, "backup", 7)
    wait_until(lambda: oracle.count >= 500, timeout=60)
    before = {trace: list(ids) for trace, ids in list(oracle.acknowledged.items())}

    status, said, errors = tracereel("backup", tmp_path / "saved", "--data-dir", collector.data_dir)

    assert (status, errors) == (0, ""), said
    assert "delivery paused for" in said
    made_at = oracle.count
    wait_until(lambda: oracle.count >= made_at + 100, timeout=60)
    assert oracle.finish() == 0
    assert delivered(collector)["stored"] == oracle.count, "the original goes on undisturbed"
    collector.stop()
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    assert manifest["waiting_bodies"] > 0, "the queue had a rest to be delivered"

    status, said, errors = tracereel(
        "restore", tmp_path / "saved", "--data-dir", tmp_path / "elsewhere"
    )

    assert (status, errors) == (0, ""), said
    restored = new_collector(tmp_path / "elsewhere").start()
    counted = delivered(restored)
    with store_client(restored) as client:
        found = Counter(
            row[0] for row in client.query("SELECT event_id FROM agent_events").result_rows
        )
        summed = client.query("SELECT sum(events) FROM trace_summaries").result_rows[0][0]
    assert [name for name, times in found.items() if times > 1] == []
    assert [name for names in before.values() for name in names if name not in found] == []
    assert counted["stored"] == len(found) == summed
    assert counted["rejected"] == counted["quarantined"] == 0
    assert manifest["tables"]["agent_events"] < len(found) <= oracle.count

    again = [
        {
            "event_id": name,
            "event_type": "custom.oracle",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": trace,
            "emitter_id": "backup-1",
            "emitter_seq": int(name.split("-")[2]),
        }
        for trace, names in before.items()
        for name in names
        if name.startswith("backup-1-")
    ][:50]
    answer = restored.post_events(again).json()
    assert answer["duplicates"] == len(again) == 50, "the restored ledger knows what it has"


@pytest.mark.fault
def test_a_backup_after_a_crash_finishes_the_batch_whose_end_was_not_written_down(
    new_collector, tmp_path
):
    collector = new_collector(environ={"TRACEREEL_CRASH_AT": "before_done"}).start()
    collector.post_events([event(n) for n in range(30)], wait=False)
    wait_until(lambda: collector.process.poll() is not None, message="it should have died")

    assert tracereel("backup", tmp_path / "saved", "--data-dir", collector.data_dir)[0] == 0
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    assert (manifest["tables"]["agent_events"], manifest["waiting_bodies"]) == (30, 0)
    assert tracereel("restore", tmp_path / "saved", "--data-dir", tmp_path / "new")[0] == 0

    restored = new_collector(tmp_path / "new").start()
    assert delivered(restored)["stored"] == 30
    with store_client(restored) as client:
        assert client.query("SELECT count() FROM agent_events").result_rows == [(30,)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a small backup and its source."""
    place = tmp_path_factory.mktemp("backup")
    data_dir = place / "data"
    assert tracereel("keys", "create", "--data-dir", data_dir, "--scope", "read")[0] == 0
    collector = CollectorProcess(
        data_dir, environ={"TRACEREEL_API_KEYS": "default:the-key-of-this-test"}
    ).start()
    headers = {"x-api-key": "the-key-of-this-test"}
    assert collector.post_events([event(n) for n in range(20)], headers=headers).status == 200
    collector.stop()
    assert tracereel("backup", place / "saved", "--data-dir", data_dir)[0] == 0
    return place / "saved"


def test_keys_and_the_audit_log_are_saved_too(saved, tmp_path):
    status, said, _ = tracereel("restore", saved, "--data-dir", tmp_path / "new")

    assert status == 0
    assert "20 events" in said
    assert tracereel("keys", "list", "--json", "--data-dir", tmp_path / "new")[1] != "[]\n"
    assert (tmp_path / "new" / "audit" / "audit.ndjson").read_text()
    assert (tmp_path / "new" / "keys.sqlite").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "new.restoring").exists()


def test_restore_is_on_disk_before_the_directory_has_its_name(saved, tmp_path, monkeypatch):
    """Every file and directory is synced, then renamed, then the parent is synced."""
    target, made = tmp_path / "new", tmp_path / "new.restoring"
    flushed = {}
    fsync = os.fsync

    def recorded_fsync(descriptor):
        flushed[os.readlink(f"/proc/self/fd/{descriptor}")] = target.exists()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    restore_backup(Settings.load({"data_dir": target}, {}), saved)

    restored = [target, *(path for path in target.rglob("*") if not path.is_symlink())]
    missing = [
        path for path in restored if flushed.get(str(made / path.relative_to(target))) is not False
    ]
    assert missing == []
    assert flushed[str(tmp_path)] is True


def test_a_data_directory_with_something_in_it_is_left_alone(saved, tmp_path):
    (tmp_path / "mine").write_text("x")

    status, _, errors = tracereel("restore", saved, "--data-dir", tmp_path)

    assert status == 2
    assert "is not empty" in errors
    assert len(errors.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_a_backup_is_not_written_over_another(saved, tmp_path):
    (tmp_path / "store").mkdir()
    status, _, errors = tracereel("backup", saved, "--data-dir", tmp_path)

    assert status == 2
    assert "is there already and not empty" in errors


def copied(saved, place):
    return shutil.copytree(saved, place / "copy")


def test_corrupted_backup_is_not_restored(saved, tmp_path):
    copy = copied(saved, tmp_path)
    archive = copy / "store.tar"
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")

    status, _, errors = tracereel("restore", copy, "--data-dir", tmp_path / "new")

    assert status == 2
    assert "store.tar is not what was saved" in errors
    assert not (tmp_path / "new").exists()


def test_interrupted_backup_is_not_restored(saved, tmp_path):
    copy = copied(saved, tmp_path)
    (copy / "manifest.json").unlink()

    status, _, errors = tracereel("restore", copy, "--data-dir", tmp_path / "new")

    assert status == 2
    assert "is not a complete backup" in errors


def test_a_backup_of_a_newer_version_is_refused_with_what_to_do(saved, tmp_path):
    copy = copied(saved, tmp_path)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest |= {"tracereel": "9.9.9", "migrations": [*manifest["migrations"], 9999]}
    (copy / "manifest.json").write_text(json.dumps(manifest))

    status, _, errors = tracereel("restore", copy, "--data-dir", tmp_path / "new")

    assert status == 2
    assert "made by tracereel 9.9.9 and has migrations [9999]" in errors
    assert "restore it with the version that made it" in errors


def test_backup_without_a_queue_exits_with_an_error(tmp_path):
    status, _, errors = tracereel("backup", tmp_path / "saved", "--data-dir", tmp_path / "none")

    assert status == 2
    assert "there is no queue in" in errors
    assert not (tmp_path / "none").exists()


def test_a_collector_on_a_server_is_saved_with_what_the_server_saves(
    new_collector, new_server, tmp_path
):
    place = "Disk('saved', 'monday.tar')"
    server = new_server(more=backup_disk(tmp_path / "disk"))
    server.start()
    dsn, other = f"{server.dsn}/first", f"{server.dsn}/second"
    collector = new_collector(arguments=("--store", dsn)).start()
    assert collector.post_events([event(n) for n in range(20)]).status == 200
    words = ("--data-dir", collector.data_dir, "--store", dsn)

    status, _, errors = tracereel("backup", tmp_path / "backup", *words)
    assert status == 2
    assert "--server-to is for collectors that use a server, and they need it" in errors
    status, said, errors = tracereel("backup", tmp_path / "backup", *words, "--server-to", place)
    assert (status, errors) == (0, "")
    assert "20 events" in said
    assert not (tmp_path / "backup" / "store.tar").exists()
    collector.stop()

    status, _, errors = tracereel(
        *("restore", tmp_path / "backup", "--data-dir", tmp_path / "new", "--store", dsn)
    )
    assert status == 2
    assert "the database first has rows in agent_events already" in errors
    status, _, errors = tracereel(
        *("restore", tmp_path / "backup", "--data-dir", tmp_path / "new", "--store", other)
    )
    assert (status, errors) == (0, "")
    restored = new_collector(tmp_path / "new", arguments=("--store", other)).start()
    assert restored.replay("backup-3").json()["summary"]["total_events"] == 3
    assert restored.post_events([event(n) for n in range(20, 25)]).json()["status"] == "stored"
    assert delivered(restored)["stored"] == 25
    with store_client(restored) as client:
        summed = client.query("SELECT sum(events) FROM trace_summaries").result_rows
    assert summed == [(25,)], "views of the restored database write to it"
    restored.stop()


@pytest.fixture
def new_database_of_cluster():
    """Return a factory of databases of the cluster, with the schema."""
    if not BACKUP_DISK:
        pytest.skip("TRACEREEL_TEST_CLUSTER_DISK names no disk")
    made = []

    def make() -> ClusterDatabase:
        made.append(new_cluster_database())
        apply_schema(made[-1].dsns[0], made[-1].nodes)
        return made[-1]

    yield make
    for each in made:
        each.drop()


def test_a_collector_on_a_cluster_is_saved_shard_by_shard(
    new_collector, new_database_of_cluster, clickhouse_server, tmp_path
):
    first, second = new_database_of_cluster(), new_database_of_cluster()
    place = f"Disk('{BACKUP_DISK}', '{first.dsns[0].rpartition('/')[2]}-{{shard}}.tar')"
    collector = new_collector(arguments=("--store", first.dsns[-1])).start()
    assert collector.post_events([event(n) for n in range(40)]).json()["status"] == "stored"
    words = ("--data-dir", collector.data_dir, "--store", first.dsns[0])
    saved = tmp_path / "backup"

    status, _, errors = tracereel("backup", saved, *words, "--server-to", "Disk('d', 'all.tar')")
    assert status == 2
    assert "every shard needs a place of its own" in errors
    status, said, errors = tracereel("backup", saved, *words, "--server-to", place)
    assert (status, errors) == (0, "")
    assert "shard 1 was saved by" in said
    assert "shard 2 was saved by" in said
    assert "40 events" in said
    collector.stop()

    into = ("restore", saved, "--data-dir", tmp_path / "new", "--store")
    status, _, errors = tracereel(*into, first.dsns[0])
    assert status == 2
    assert "has rows in agent_events already" in errors
    status, _, errors = tracereel(*into, new_database(clickhouse_server))
    assert status == 2
    assert "the backup is of a cluster of 2 shards, and --store names one server" in errors
    status, _, errors = tracereel(*into, second.dsns[1])
    assert (status, errors) == (0, "")
    for store in second.stores():
        assert store.rows("SELECT count(), uniqExact(event_id) FROM agent_events") == [("40", "40")]
        assert store.rows("SELECT sum(events) FROM trace_summaries") == [("40",)]
        store.close()
    kept = [store.rows("SELECT count() FROM agent_events_local") for store in second.stores()[::2]]
    assert all(rows != [("0",)] for rows in kept), "both shards have rows"
    restored = new_collector(tmp_path / "new", arguments=("--store", second.dsns[2])).start()
    assert restored.replay("backup-3").json()["summary"]["total_events"] == 6
    more = [event(n) for n in range(40, 50)]
    assert restored.post_events(more).json()["status"] == "stored"
    assert delivered(restored)["stored"] == 50
    with store_client(restored) as client:
        summed = client.query("SELECT sum(events) FROM trace_summaries").result_rows
    assert summed == [(50,)], "views of the restored database write to it"
    restored.stop()
