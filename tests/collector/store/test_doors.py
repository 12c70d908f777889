"""Inserts while the schema changes: refused and repeated, never stored in a part of the tables."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clickhouse_server import new_database
from tests.support.store_writers import StoreWriter
from tests.support.waiting import wait_until
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.migrate import migrate

COUNTS = (
    "SELECT count() FROM agent_events",
    "SELECT uniqExact(event_id) FROM agent_events",
    "SELECT sum(events) FROM trace_summaries",
    "SELECT sum(events) FROM event_types",
    "SELECT uniqExact(trace_id) FROM run_links",
)


@pytest.fixture
def on_server(clickhouse_server):
    """Return a factory of stores on one new database of a real server, as several collectors have."""
    address = StoreAddress.parse(new_database(clickhouse_server))
    made = []

    def connect():
        made.append(ClickHouseStore(address, query_seconds=60, query_memory_bytes=1 << 30))
        return made[-1]

    yield connect
    made[0].outside().command(f"DROP DATABASE IF EXISTS `{address.database}` SYNC")
    for each in made:
        each.close()


def test_upgrade_under_load_loses_and_doubles_nothing(on_server, later):
    store = on_server()
    store.prepare()
    migrate(store)
    writers = [StoreWriter(on_server(), number) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.wait_for(2)

    assert [each.number for each in migrate(store, later)] == [9000]

    for writer in writers:
        writer.wait_for(2)
    stored = sum(writer.finish() for writer in writers)
    assert sum(writer.refused for writer in writers), "no insert met the change"
    assert {asked: store.rows(asked) for asked in COUNTS} == {
        asked: [(str(stored),)] for asked in COUNTS
    }


def test_collectors_that_upgrade_at_once_take_turns(on_server, later):
    store = on_server()
    store.prepare()
    migrate(store)
    writers = [StoreWriter(on_server(), number) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.wait_for(2)

    with ThreadPoolExecutor() as at_once:
        applied = list(at_once.map(migrate, [on_server() for _ in range(3)], [later] * 3))

    for writer in writers:
        writer.wait_for(2)
    stored = sum(writer.finish() for writer in writers)
    assert {asked: store.rows(asked) for asked in COUNTS} == {
        asked: [(str(stored),)] for asked in COUNTS
    }
    assert sorted(len(each) for each in applied) == [0, 0, 1]
    assert store.rows("SELECT count() FROM schema_migrations") == [(str(len(later)),)]


def test_schema_can_be_changed_after_a_change_that_was_killed(on_server):
    store = on_server()
    address = store.address
    dsn = f"clickhouse://{address.username}:{address.password}@{address.host}:{address.port}"
    turn = f"tracereel-schema-{address.database}"
    asked = "SELECT count() FROM system.processes WHERE query_id = {turn:String}"
    command = [sys.executable, "-m", "tracereel", "schema", "apply", "--store"]
    killed = subprocess.Popen([*command, f"{dsn}/{address.database}"])
    wait_until(lambda: store.outside().rows(asked, turn=turn) == [("1",)], timeout=60)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL

    assert migrate(store)

    wait_until(lambda: store.rows(asked, turn=turn) == [("0",)], message="its turn has ended")
