"""Deletion and retention on a real cluster; see `tests/support/clickhouse_cluster.py`."""

import time

import pytest

from tests.collector.store.runs_to_find import run
from tests.support.clickhouse_cluster import away
from tests.support.store_writers import RUNS, body_of, events_of
from tests.support.waiting import wait_until
from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.deliver.deletion_queues import OwnQueue
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store import retention, shards
from tracereel_collector.store.deletion import count_rows, delete_rows, runs_of, unfinished
from tracereel_collector.store.shards import Shards


def test_deletion_while_a_replica_is_away_says_so_and_finishes(nodes, tenant, token):
    nodes[0].insert(Kind.EVENTS, [events_of(tenant, RUNS)], token=token)
    runs = runs_of(nodes[0], tenant, [f"run-{n}" for n in range(RUNS)])

    with away(nodes[1], "agent_events_local"):
        assert delete_rows(nodes[0], runs)["agent_events"] == RUNS
        assert count_rows(nodes[0], runs) == {}
    wait_until(lambda: unfinished(nodes[0]) == [], timeout=60)

    local = "SELECT count() FROM agent_events_local WHERE tenant = {t:String}"
    assert [node.rows(local, t=tenant) for node in nodes] == [[("0",)]] * len(nodes)


def test_deletion_that_was_interrupted_between_shards_subtracts_each_row_once(
    nodes, tenant, token, monkeypatch
):
    names = [f"run-{number}" for number in range(RUNS)]
    body = body_of(1, [event for name in names for event in run(name, agent="a")], tenant=tenant)
    nodes[0].insert(Kind.EVENTS, [body], token=token)
    started = "SELECT sum(started) FROM agent_minutes WHERE tenant = {t:String}"
    by_shard = "SELECT uniqExact(shardNum()) FROM agent_events WHERE tenant = {t:String}"
    assert (nodes[0].rows(started, t=tenant), nodes[0].rows(by_shard, t=tenant)) == (
        [(str(RUNS),)],
        [("2",)],
    )
    on_any, is_away = shards._on_any, [True]

    def on_first_shard(replicas, statement, parameters):
        if replicas[0].shard == 2 and "`agent_events_local`" in statement and is_away:
            is_away.pop()
            raise StoreUnavailableError("the shard is away")
        on_any(replicas, statement, parameters)

    monkeypatch.setattr(shards, "_on_any", on_first_shard)
    runs = runs_of(nodes[0], tenant, names)
    with pytest.raises(StoreUnavailableError, match="the shard is away"):
        delete_rows(nodes[0], runs)
    assert 0 < delete_rows(nodes[1], runs)["agent_events"] < RUNS * 4

    assert nodes[0].rows(started, t=tenant) == [("0",)]
    assert count_rows(nodes[0], runs) == {}


def test_deletion_of_rows_that_a_replica_lacks_is_finished_when_it_has_them(
    nodes, tenant, token, tmp_path
):
    """The first replicas come back, and cannot fetch yet what the others took meanwhile."""
    table, firsts, seconds = "agent_events_local", nodes[::2], nodes[1::2]
    queue = DurableQueue(
        tmp_path / "queue.sqlite",
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 20, retain_seconds=0),
    )
    audit, writers = AuditLog(tmp_path / "audit"), StoreWriters(tmp_path)
    deletion = Deletion(OwnQueue(queue), nodes[0], audit, writers)
    try:
        for node in seconds:
            node.command(f"SYSTEM STOP REPLICATED SENDS {table}")
        with away(firsts[0], table), away(firsts[1], table):
            nodes[1].insert(Kind.EVENTS, [events_of(tenant, RUNS)], token=token)

        answer = deletion.trace(tenant, "run-1", by="test")
        assert answer["status"] == "deleting"
        addresses = {f"{node.address.host}:{node.address.port}" for node in firsts}
        assert set(answer["waiting_for"]) == addresses
        with pytest.raises(StoreUnavailableError, match="lack rows of others"):
            deletion.trace(tenant, "no-run", by="test")

        for node in seconds:
            node.command(f"SYSTEM START REPLICATED SENDS {table}")
        # A replica waits up to a minute before it fetches a part again.
        wait_until(
            lambda: deletion.trace(tenant, "run-1", by="test")["status"] == "deleted", timeout=300
        )
        left = "SELECT count() FROM agent_events_local WHERE tenant = {t:String}"
        counts = [int(node.rows(left, t=tenant)[0][0]) for node in nodes]
        assert (counts[0] + counts[2], counts[1] + counts[3]) == (RUNS - 1, RUNS - 1)
    finally:
        for node in seconds:
            node.command(f"SYSTEM START REPLICATED SENDS {table}")
        queue.close()


def test_retention_drops_days_on_all_replicas(nodes, tenant, token):
    old = events_of(tenant, RUNS)
    fields = {name: getattr(old, name) for name in old.__slots__}
    long_ago = QueuedBody(**fields | {"received_unix_nano": 1_600_000_000 * 10**9})
    nodes[0].insert(Kind.EVENTS, [long_ago], token=token)
    dating = Dating(now_nano=time.time_ns())
    policy = retention.RetentionPolicy(tenant, 30, "", "")
    limits = retention.Limits.of([policy], default_days=0, today=dating.today)

    for found in retention.expired(nodes[0], limits, dating):
        whole = retention.whole_partitions(nodes[0], found)
        if whole:
            retention.drop_partitions(found, whole)
        if rest := [each for each in found.partitions if each not in whole]:
            retention.delete_rows(found, rest)

    wait_until(lambda: Shards.of(nodes[0]).unfinished() == [], timeout=60)
    local = "SELECT count() FROM agent_events_local WHERE tenant = {t:String}"
    assert [node.rows(local, t=tenant) for node in nodes] == [[("0",)]] * len(nodes)
