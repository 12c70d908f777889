"""Everything that a collector does to a server, by a user with the documented rights and no more.

The user's profile has the opposite of every setting that our statements rely on.
"""

import subprocess
import sys
import time
import uuid

import pytest

from tests.collector.store.test_delivery import LIMITS
from tests.collector.store.test_tokens_and_restarts import bodies
from tests.support.clickhouse_server import (
    BACKUP_DISK,
    MISSING,
    PASSWORD,
    ClickHouseServer,
    backup_disk,
    is_available,
)
from tests.support.collector import http
from tests.support.server_users import (
    NAME,
    OPPOSITE,
    RIGHTS_DATABASE,
    documented_rights,
    profile,
    user,
)
from tracereel_collector.errors import StartupError
from tracereel_collector.query.user_sql import SqlLimits, UserSql
from tracereel_collector.query.user_sql.catalogue import CatalogueCache
from tracereel_collector.query.user_sql.execute import SqlQuery
from tracereel_collector.queue import DurableQueue
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.startup.preparation import Preparation
from tracereel_collector.startup.schema import prepare_schema
from tracereel_collector.store import retention
from tracereel_collector.store import settings as sent
from tracereel_collector.store.archive import write_archive
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.deletion import delete_rows, runs_of
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.prices import known_prices, load_prices
from tracereel_collector.store.sql import migrations
from tracereel_collector.store.tables import count_all
from tracereel_collector.store.user_sql import UserSqlStore


def connect(server, database, name=NAME):
    address = StoreAddress.parse(
        f"clickhouse://{name}:{PASSWORD}@127.0.0.1:{server.http_port}/{database}"
    )
    return ClickHouseStore(address, query_seconds=60, query_memory_bytes=1 << 30)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if not is_available():
        pytest.skip(MISSING)
    running = ClickHouseServer(
        tmp_path_factory.mktemp("server"),
        more=backup_disk(tmp_path_factory.mktemp("backups")),
        profiles=profile(),
        users=user(documented_rights(RIGHTS_DATABASE))
        + user(["GRANT SELECT ON *.*"], name="reader"),
    )
    try:
        yield running.start()
    finally:
        running.kill()


@pytest.fixture(scope="module")
def store(server):
    made = connect(server, RIGHTS_DATABASE)
    assert len(prepare_schema(made)) == len(migrations())
    yield made
    made.close()


def test_the_profile_has_the_opposite_settings(server):
    query = "SELECT name, value FROM system.settings FORMAT TSV"
    answer = http(
        "POST",
        f"http://127.0.0.1:{server.http_port}/?user={NAME}&password={PASSWORD}",
        body=query.encode(),
    )
    found = dict(line.split("\t") for line in answer.body.decode().splitlines())

    sends = {**sent.READ, **sent.DDL, **sent.CHANGE, **sent.INSERT, **sent.ENDLESS}
    # A parameter of the URL, which profiles do not have; and the companion of `async_insert`.
    of_requests = {"readonly", "wait_end_of_query"}
    assert set(sends) - of_requests == set(OPPOSITE) - {"wait_for_async_insert"}
    for name, value in OPPOSITE.items():
        assert found[name] == str(value)
        assert name == "wait_for_async_insert" or str(sends[name]) != str(value), name


def test_tokens_hold(store):
    token = uuid.uuid4().hex
    made = bodies()
    for body in made:
        store.insert(body.kind, [body], token=f"{token}:{body.id}")
    once = count_all(store)

    for body in made:
        store.insert(body.kind, [body], token=f"{token}:{body.id}")

    assert count_all(store) == once
    assert once["agent_events"] == 1
    assert store.rows("SELECT sum(events), sum(spans) FROM trace_summaries") == [("1", "1")]


def test_retention_prices_and_user_sql(store):
    prices = known_prices(None)
    load_prices(store, prices)
    retention.set_rule(store, "default", 30, by="test", now_unix_nano=time.time_ns())
    assert [rule.days for rule in retention.rules_of(store)] == [30]
    assert retention.oldest_day(store, "default") is not None
    sql = UserSql(
        UserSqlStore(store.address, connections=2),
        CatalogueCache(store.address.database, store.rows),
        SqlLimits(),
    )
    asked = SqlQuery(
        sql=b"SELECT count() FROM model_calls",
        tenant="default",
        parameters={},
        format="TSV",
        settings={},
    )
    with sql.run(asked) as (result, _):
        assert b"".join(result.chunks()).strip().isdigit()


def test_backup_is_written(store):
    place = f"Disk('{BACKUP_DISK}', 'rights.tar')"

    write_archive(store, database=RIGHTS_DATABASE, place=place)

    assert store.rows("SELECT status FROM system.backups") == [("BACKUP_CREATED",)]


def test_user_without_rights_is_named_in_one_line(server, tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "serve", "--port", "0", "--grpc-port", "off"),
            *("--workers", "1", "--data-dir", tmp_path / "data"),
            *("--store", f"clickhouse://reader:{PASSWORD}@127.0.0.1:{server.http_port}/other"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    line = [each for each in done.stderr.splitlines() if each.startswith("tracereel serve: ")]
    assert len(line) == 1
    assert "the user 'reader' lacks a right" in line[0]
    assert line[0].endswith("(docs/growing.md lists the rights that it needs)")


def test_preparation_says_why_the_store_cannot_be_used(server, store, tmp_path):
    queue = DurableQueue(tmp_path / "queue.sqlite", LIMITS)
    refused = Preparation(connect(server, "other", name="reader"), queue, known_prices(None))
    assert refused.problem

    with pytest.raises(StartupError, match="lacks a right"):
        refused()

    assert "lacks a right" in refused.problem
    assert refused.problem.endswith("(docs/growing.md lists the rights that it needs)")
    allowed = Preparation(connect(server, RIGHTS_DATABASE), queue, known_prices(None))
    allowed()
    assert allowed.problem == ""
    queue.close()


def test_an_upgrade_and_a_deletion(store, later):
    assert [each.number for each in migrate(store, later)] == [9000]
    runs = runs_of(store, "default", ["t"])

    delete_rows(store, runs)

    assert store.rows("SELECT count() FROM agent_events") == [("0",)]
    dating = Dating(now_nano=time.time_ns())
    limits = retention.Limits.of([], default_days=1, today=dating.today)
    for found in retention.expired(store, limits, dating):
        retention.drop_partitions(found, list(found.partitions))
    assert store.rows("SELECT count() FROM otel_spans") == [("0",)]
