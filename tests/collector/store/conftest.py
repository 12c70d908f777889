"""Real stores: the embedded engine and a ClickHouse server, each with a database for all modules."""

import itertools
import json
import time
import uuid

import pytest

from tests.support.clickhouse_cluster import apply_schema, new_cluster_database
from tests.support.engine_store import address_of, store_at
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.clickhouse import StoreAddress
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.sql import migrations

TABLES = (
    *("agent_events", "otel_spans", "otel_span_events", "model_usage", "model_prices"),
    *("price_rules", "price_names"),
    *("trace_summaries", "trace_texts", "agent_minutes", "agent_hours", "settled_calls"),
)
RECEIVED = 1_769_162_400_000_000_000
LATER_SCHEMA = """-- A column of a table and of the view that fills it.
ALTER TABLE run_links$local ADD COLUMN IF NOT EXISTS events SimpleAggregateFunction(sum, UInt64);
$on_cluster ALTER TABLE run_links ADD COLUMN IF NOT EXISTS events SimpleAggregateFunction(sum, UInt64);

-- Until it is loaded again, a changed view derives other tokens than after a restart.
ATTACH TABLE IF NOT EXISTS agent_events_to_run_links;

ALTER TABLE agent_events_to_run_links MODIFY QUERY
SELECT tenant, parent_trace_id, trace_id, min(agent_events.ingested_at) AS ingested_at, count() AS events
FROM agent_events$local AS agent_events
WHERE parent_trace_id != ''
GROUP BY tenant, parent_trace_id, trace_id;

DETACH TABLE agent_events_to_run_links SYNC;

ATTACH TABLE agent_events_to_run_links;

CREATE TABLE IF NOT EXISTS event_types$local
(
    tenant LowCardinality(String),
    event_type LowCardinality(String),
    events UInt64
)
ENGINE = ${replicated}SummingMergeTree($replica)
ORDER BY (tenant, event_type)
SETTINGS $merge_tree_settings;

$on_cluster CREATE TABLE IF NOT EXISTS event_types AS event_types$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'event_types$local', sipHash64(event_type));

-- Filled with the rows that are there; emptied first, should this have been interrupted.
TRUNCATE TABLE event_types$local;

INSERT INTO event_types$local
SELECT tenant, event_type, count() AS events FROM agent_events$local GROUP BY tenant, event_type;

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_event_types TO event_types$local AS
SELECT tenant, event_type, count() AS events FROM agent_events$local GROUP BY tenant, event_type;
"""
"""Statements that a later version may use to change a store with rows in it."""


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    with Supervisor(EngineSettings(store_dir=tmp_path_factory.mktemp("store"))) as running:
        yield running


@pytest.fixture(params=["embedded", "server"], scope="module")
def place(request):
    """Return the address of a ClickHouse: every test that needs one runs on each."""
    if request.param == "server":
        return StoreAddress.parse(request.getfixturevalue("clickhouse_server"))
    return address_of(request.getfixturevalue("engine"))


def connect(place, database):
    """Return a store on a database without tables."""
    store = store_at(place, database)
    store.prepare()
    return store


@pytest.fixture(scope="module")
def cluster_database():
    """Return a database of the cluster of TRACEREEL_TEST_CLUSTER."""
    made = new_cluster_database()
    yield made
    made.drop()


@pytest.fixture(scope="module")
def nodes(cluster_database):
    """Return the stores of all nodes of that cluster, with the schema."""
    apply_schema(cluster_database.dsns[0], cluster_database.nodes)
    made = cluster_database.stores()
    yield made
    for store in made:
        store.close()


@pytest.fixture
def new_store(place):
    """Return a store on an empty database."""
    store = connect(place, f"db_{uuid.uuid4().hex}")
    yield store
    store.close()


@pytest.fixture
def later_folder(tmp_path):
    """Return a folder with what a later version adds to the schema."""
    folder = tmp_path / "schema"
    folder.mkdir()
    (folder / "9000_event_types.sql").write_text(LATER_SCHEMA)
    return folder


@pytest.fixture
def later(later_folder):
    """Return the migrations of a later version: the current ones and one more."""
    return [*migrations(), *migrations(later_folder)]


@pytest.fixture(scope="session")
def migrated_stores():
    """Return the migrated store of each address that was asked for."""
    made = {}
    yield made
    for store in made.values():
        store.close()


@pytest.fixture(scope="module")
def migrated(place, migrated_stores):
    if place not in migrated_stores:
        store = migrated_stores[place] = connect(place, f"db_{uuid.uuid4().hex}")
        migrate(store)
    return migrated_stores[place]


@pytest.fixture
def store(migrated):
    """Return an empty migrated store; tokens are still remembered, so use `token`."""
    for table in TABLES:
        migrated.command(f"TRUNCATE TABLE {table}")
    return migrated


@pytest.fixture
def token():
    """Return an unused token."""
    return uuid.uuid4().hex


@pytest.fixture
def queued():
    """Return a factory of bodies as delivery reads them, with consecutive numbers."""
    ids, number = itertools.count(1), 1

    def make(data, *, records=None, kind=Kind.EVENTS, tenant="default"):
        nonlocal number
        count = records if records is not None else len(data.split(b"\n"))
        body = QueuedBody(
            id=next(ids),
            kind=kind,
            tenant=tenant,
            first_sequence_number=number,
            records=count,
            received_unix_nano=RECEIVED,
            data=data,
        )
        number += count
        return body

    return make


@pytest.fixture(scope="session")
def sequence():
    """Return a factory of bodies for tests that share the store, each with its own tenants."""
    return itertools.count(1)


@pytest.fixture
def tenant():
    """Return an unused tenant, so the shared store need not be emptied."""
    return f"tenant-{uuid.uuid4().hex}"


@pytest.fixture
def told(migrated, sequence, tenant):
    """Store events as lines of one body."""

    def insert(*events, tenant=tenant):
        data = b"\n".join(json.dumps(each).encode() for each in events)
        insert_body(migrated, Kind.EVENTS, data, len(events), tenant, sequence)

    return insert


@pytest.fixture
def spans(migrated, sequence, tenant):
    """Store the spans of an OTLP request."""

    def insert(request, tenant=tenant):
        insert_body(migrated, Kind.SPANS, request, 1, tenant, sequence)

    return insert


@pytest.fixture
def beat(migrated, sequence, tenant):
    """Store a heartbeat; it claims no numbers, because those of old events are forgotten."""

    def insert(emitter_id, state, tenant=tenant, recorded=0):
        said = {"emitter_id": emitter_id, "state": state, "interval_seconds": 1e9}
        said["recorded"] = recorded
        # Sent now, because old heartbeats are forgotten.
        data, received = json.dumps(said).encode(), time.time_ns()
        insert_body(migrated, Kind.HEARTBEATS, data, 1, tenant, sequence, received=received)

    return insert


def insert_body(store, kind, data, records, tenant, sequence, *, received=RECEIVED):
    number = next(sequence)
    body = QueuedBody(
        id=number,
        kind=kind,
        tenant=tenant,
        first_sequence_number=number * 1000,
        records=records,
        received_unix_nano=received + number,
        data=data,
    )
    store.insert(kind, [body], token=uuid.uuid4().hex)
