"""Schema and store on a real cluster; see `tests/support/clickhouse_cluster.py`."""

import json
import random
import signal
import subprocess
import sys
import time
import uuid

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.clients import fields
from tests.collector.store.test_doors import COUNTS
from tests.support.clickhouse_cluster import away, limited_user_database, new_cluster_database
from tests.support.collector import CollectorProcess, http
from tests.support.contract import EXAMPLES
from tests.support.settling import settle_all
from tests.support.store_writers import RUNS, StoreWriter, events_of
from tests.support.waiting import wait_until
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.query.user_sql import SqlLimits, UserSql
from tracereel_collector.query.user_sql.catalogue import CatalogueCache
from tracereel_collector.query.user_sql.execute import SqlQuery
from tracereel_collector.startup.schema import apply_schema, prepare_schema
from tracereel_collector.store.cluster import remembered_cluster
from tracereel_collector.store.layout import Layout
from tracereel_collector.store.migrate import migrate_nodes
from tracereel_collector.store.price_names import find_prices
from tracereel_collector.store.prices import known_prices, load_prices
from tracereel_collector.store.sql import migrations
from tracereel_collector.store.user_sql import UserSqlStore

KILLS = 4
APPLY = (sys.executable, "-m", "tracereel", "schema", "apply")


def command(*args):
    return subprocess.run(
        [*APPLY, *args],
        capture_output=True,
        text=True,
        check=False,
    )


def counted(store, tenant):
    return store.rows(
        "SELECT (SELECT count() FROM agent_events WHERE tenant = {t:String}),"
        " (SELECT uniqExact(event_id) FROM agent_events WHERE tenant = {t:String}),"
        " (SELECT sum(events) FROM trace_summaries WHERE tenant = {t:String}),"
        " (SELECT uniqExact(trace_id) FROM trace_texts WHERE tenant = {t:String})",
        t=tenant,
    )[0][:3]


def sync_replicas(stores):
    """Wait until every replica has the rows of the others."""
    for store in stores:
        for (table,) in store.rows(
            "SELECT table FROM system.replicas WHERE database = currentDatabase()"
        ):
            store.command(f"SYSTEM SYNC REPLICA `{table}`")


def test_schema_is_written_down_on_every_node_and_applied_once(cluster_database, nodes):
    again = command("--store", cluster_database.dsns[-1])

    assert (again.returncode, again.stdout) == (0, "the schema is complete\n")
    expected = [(str(each.number), each.checksum) for each in migrations(layout=Layout("main"))]
    for node in nodes:
        assert node.rows("SELECT number, checksum FROM schema_migrations ORDER BY 1") == expected
        assert len(remembered_cluster(node).nodes) == len(nodes)
        assert prepare_schema(node) == []


def test_calls_are_settled_once_by_whichever_node(nodes):
    tenant = uuid.uuid4().hex
    fields.insert(nodes[0], Kind.SPANS, tenant, fields.spans_of("both-openai"))
    sync_replicas(nodes)

    assert settle_all(nodes[0]) > 0
    sync_replicas(nodes)
    assert [settle_all(node) for node in nodes] == [0] * len(nodes)
    for node in nodes:
        calls, tokens = "count(), sum(TotalTokens)", "sum(span_calls), sum(span_tokens)"
        of_calls = f"SELECT {calls} FROM model_calls WHERE TenantId = {{t:String}}"
        of_runs = f"SELECT {tokens} FROM trace_summaries WHERE tenant = {{t:String}}"
        assert node.rows(of_calls, t=tenant) == node.rows(of_runs, t=tenant) == [("4", "450")]


def test_collector_does_not_make_the_schema_of_a_cluster():
    made = new_cluster_database()
    store = made.stores()[0]

    with pytest.raises(StartupError, match="node of the cluster 'main', which has no schema yet"):
        prepare_schema(store)

    name = store.address.database
    there = "SELECT count() FROM system.databases WHERE name = {name:String}"
    assert store.outside().rows(there, name=name) == [("0",)]


def test_node_without_an_address_is_named(cluster_database, nodes):
    addresses = cluster_database.nodes.rpartition(",")[0]
    done = command("--store", cluster_database.dsns[0], "--nodes", addresses)

    assert done.returncode == 2
    assert "no HTTP address is known of shard 2, replica 2" in done.stderr


def test_a_token_is_stored_once_through_all_nodes(nodes, tenant, token):
    body = events_of(tenant, RUNS)

    for node in nodes:
        node.insert(Kind.EVENTS, [body], token=token)

    for node in nodes:
        assert counted(node, tenant) == (str(RUNS),) * 3


def test_what_was_acknowledged_is_read_from_every_node(nodes):
    for number in range(12):
        tenant = uuid.uuid4().hex
        nodes[number % len(nodes)].insert(
            Kind.EVENTS, [events_of(tenant, 8)], token=uuid.uuid4().hex
        )
        assert [counted(node, tenant) for node in nodes] == [("8", "8", "8")] * len(nodes)


def test_inserts_and_reads_stay_with_a_replica_that_only_looks_behind(nodes):
    """A busy replica is slow with the log of its own inserts; the other one may lag."""
    table, firsts = "agent_events_local", nodes[::2]
    delay = (
        "SELECT max(absolute_delay) FROM system.replicas"
        " WHERE database = currentDatabase() AND table = {table:String}"
    )
    count = "SELECT count() FROM {from:Identifier} WHERE tenant = {tenant:String}"
    tenants = [uuid.uuid4().hex for _ in range(2)]
    try:
        for node in firsts:
            node.command(f"SYSTEM STOP REPLICATION QUEUES {table}")
        for tenant in tenants:
            nodes[1].insert(Kind.EVENTS, [events_of(tenant, RUNS)], token=uuid.uuid4().hex)
            for node in firsts:
                wait_until(lambda node=node: int(node.rows(delay, table=table)[0][0]) > 1)
        for tenant in tenants:
            here = [node.rows(count, tenant=tenant, **{"from": table})[0][0] for node in firsts]
            assert sum(map(int, here)) == RUNS
            asked = {"tenant": tenant, "from": "agent_events"}
            assert [node.rows(count, **asked) for node in nodes] == [[(str(RUNS),)]] * len(nodes)
    finally:
        for node in firsts:
            node.command(f"SYSTEM START REPLICATION QUEUES {table}")


def test_metrics_that_one_shard_refused_are_stored_once(nodes, tenant, token):
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="gauge")
    for number in range(200):
        point = metric.gauge.data_points.add(as_int=number, time_unix_nano=time.time_ns())
        point.attributes.add(key="n").value.int_value = number
    body = QueuedBody(
        id=1,
        kind=Kind.METRICS,
        tenant=tenant,
        first_sequence_number=1,
        records=1,
        received_unix_nano=time.time_ns(),
        data=request.SerializeToString(),
    )
    with (
        away(nodes[2], "otel_metrics_gauge_local"),
        away(nodes[3], "otel_metrics_gauge_local"),
        pytest.raises(StoreUnavailableError),
    ):
        nodes[0].insert(Kind.METRICS, [body], token=token)

    nodes[1].insert(Kind.METRICS, [body], token=token)

    asked = (
        "SELECT count(), uniqExact(IntValue) FROM otel_metrics_gauge WHERE TenantId = {t:String}"
    )
    assert nodes[0].rows(asked, t=tenant) == [("200", "200")]


def test_prices_are_read_from_every_node_when_they_are_loaded(nodes):
    prices = known_prices(None)
    assert load_prices(nodes[0], prices)

    for node in nodes:
        assert node.rows("SELECT count() FROM current_prices") == [
            (str(len(prices.table().prices)),)
        ]
        assert not load_prices(node, prices)


def test_models_are_priced_on_every_node_when_one_has_looked_them_up(nodes, token):
    load_prices(nodes[0], known_prices(None))
    names = [f"gpt-4o-2024-08-06-{token}", "gpt-4o", "openai/gpt-4o-mini", "no-such-model"]
    rows = "\n".join(
        json.dumps({"TenantId": token, "Provider": "proxy", "Model": name, "Calls": 1})
        for name in names
    )
    nodes[0].put("model_usage", rows.encode(), fmt="JSONEachRow")

    find_prices(nodes[-1])

    for node in nodes:
        found = node.rows("SELECT DISTINCT Model FROM priced_models WHERE Provider = 'proxy'")
        assert {name for (name,) in found} == {"gpt-4o", "openai/gpt-4o-mini"}


def test_user_sql_joins_across_shards_and_lists_no_local_tables(nodes, tenant, token):
    nodes[0].insert(Kind.EVENTS, [events_of(tenant, RUNS)], token=token)
    address = nodes[0].address
    sql = UserSql(
        UserSqlStore(address, connections=2),
        CatalogueCache(address.database, nodes[0].rows),
        SqlLimits(),
    )

    def rows(text):
        asked = SqlQuery(
            sql=text.encode(), tenant=tenant, parameters={}, format="TabSeparated", settings={}
        )
        with sql.run(asked) as (result, _):
            return b"".join(result.chunks()).decode().splitlines()

    joined = (
        "SELECT count() FROM agent_events AS e"
        " INNER JOIN trace_summaries AS s ON s.trace_id = e.trace_id"
    )
    assert rows(joined) == [str(RUNS)]
    within = (
        "SELECT count() FROM agent_events WHERE trace_id IN (SELECT trace_id FROM trace_summaries)"
    )
    assert rows(within) == [str(RUNS)]
    assert not [name for name in rows("SHOW TABLES") if name.endswith("_local")]


def test_upgrade_under_load_on_all_nodes_loses_and_doubles_nothing(later, later_folder):
    made = new_cluster_database()
    stores = made.stores()
    try:
        apply_schema(
            stores[0],
            cluster=None,
            one_server=False,
            nodes=made.nodes.split(","),
            report=lambda *_: None,
        )
        writers = [StoreWriter(store, number) for number, store in enumerate(made.stores())]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.wait_for(2)
        found = remembered_cluster(stores[0])
        layout = Layout(found.name)
        known = [*migrations(layout=layout), *migrations(later_folder, layout=layout)]

        applied = migrate_nodes(found.nodes, known, report=lambda *_: None)

        assert [each.number for each in applied] == [9000]
        for writer in writers:
            writer.wait_for(2)
        stored = sum(writer.finish() for writer in writers)
        assert sum(writer.refused for writer in writers), "no insert met the change"
        expected = {asked: [(str(stored),)] for asked in COUNTS}
        read = [{asked: store.rows(asked) for asked in COUNTS} for store in stores]
        # Rows that only a lagging read misses are not lost: these two have different causes.
        sync_replicas(stores)
        for store in stores:
            assert {asked: store.rows(asked) for asked in COUNTS} == expected
        assert read == [expected] * len(stores), "acknowledged rows were not read at once"
    finally:
        made.drop()


def shape(stores):
    """Return the statements that would make the tables of each node, and its list of migrations."""
    made = []
    for store in stores:
        name = store.address.database
        tables = store.rows(
            "SELECT name, create_table_query FROM system.tables"
            " WHERE database = currentDatabase() ORDER BY name"
        )
        applied = store.rows("SELECT number, name, checksum FROM schema_migrations ORDER BY 1")
        made.append(([(table, text.replace(name, "DB")) for table, text in tables], applied))
    return made


def missing_tables(stores, tables):
    """Return the nodes' databases and the tables that they lack."""
    asked = "SELECT name FROM system.tables WHERE database = {db:String}"
    found = []
    for store in stores:
        there = {name for (name,) in store.outside().rows(asked, db=store.address.database)}
        found += [(store, table) for table in sorted(tables - there)]
    return found


def killed_after(database, store, table):
    """Kill `schema apply` as soon as a node has a table; return whether it was running."""
    running = subprocess.Popen(
        [*APPLY, "--store", database.dsns[0], "--nodes", database.nodes], stdout=subprocess.DEVNULL
    )
    wait_until(
        lambda: running.poll() is not None or not missing_tables([store], {table}),
        timeout=300,
        message=f"{store.address}: {table}",
    )
    running.kill()
    return running.wait() == -signal.SIGKILL


def test_schema_that_was_killed_at_random_points_is_that_of_one_run(nodes):
    expected = shape(nodes)
    tables = {table for made, _ in expected for table, _ in made}
    seed = random.SystemRandom().randrange(1, 10**6)
    rnd = random.Random(seed)
    made = new_cluster_database()
    stores = made.stores()
    try:
        killed = [
            killed_after(made, *rnd.choice(missing))
            for _ in range(KILLS)
            if (missing := missing_tables(stores, tables))
        ]
        done = command("--store", made.dsns[0], "--nodes", made.nodes)

        assert done.returncode == 0, done.stderr
        assert any(killed), f"seed {seed}: it was not interrupted"
        assert shape(stores) == expected, f"seed {seed}"
        assert prepare_schema(stores[-1]) == []
    finally:
        for store in stores:
            store.close()
        made.drop()


def test_documented_rights_are_enough(tmp_path):
    """Schema, collector, reads and deletion, by a user with these rights and the opposite settings."""
    made = limited_user_database()
    done = command("--store", made.dsns[0], "--nodes", made.nodes)
    assert done.returncode == 0, done.stderr
    collector = CollectorProcess(
        tmp_path, arguments=("--local-admin", "--store", made.dsns[-1])
    ).start()
    try:
        for trace in ("kept", "gone"):
            event = {**EXAMPLES[0], "event_id": trace, "trace_id": trace}
            assert collector.post_events([event]).json()["status"] == "stored"
        listed = http("GET", f"{collector.url}/v1/traces?from=2020-01-01T00:00:00Z").json()
        assert {each["trace_id"] for each in listed["traces"]} == {"kept", "gone"}
        for path in ("/v1/traces/kept", "/v1/replay/kept", "/v1/sessions", "/v1/agents"):
            assert http("GET", collector.url + path).status == 200, path
        counted = http("GET", f"{collector.url}/clickhouse?query=SELECT+count()+FROM+agent_events")
        assert counted.body == b"2\n"

        answer = http("DELETE", f"{collector.url}/v1/traces/gone", timeout=60)

        assert (answer.status, answer.json()["status"]) == (200, "deleted"), answer.body
        assert collector.replay("gone").status == 404
        assert collector.replay("kept").status == 200
    finally:
        collector.stop()
