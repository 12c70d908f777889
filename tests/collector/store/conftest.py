"""Real engine with a database for each test module."""

import itertools
import json
import time
import uuid

import pytest

from tests.support.engine_store import store_on
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.sql import migrations

TABLES = (
    *("agent_events", "otel_spans", "otel_span_events", "model_usage", "model_prices"),
    *("trace_summaries", "trace_texts", "agent_minutes", "agent_hours"),
)
RECEIVED = 1_769_162_400_000_000_000
LATER_SCHEMA = """-- A column of a table and of the view that fills it.
ALTER TABLE run_links ADD COLUMN IF NOT EXISTS events SimpleAggregateFunction(sum, UInt64);

ALTER TABLE agent_events_to_run_links MODIFY QUERY
SELECT tenant, parent_trace_id, trace_id, min(agent_events.ingested_at) AS ingested_at, count() AS events
FROM agent_events
WHERE parent_trace_id != ''
GROUP BY tenant, parent_trace_id, trace_id;

CREATE TABLE event_types
(
    tenant LowCardinality(String),
    event_type LowCardinality(String),
    events UInt64
)
ENGINE = SummingMergeTree
ORDER BY (tenant, event_type)
SETTINGS $merge_tree_settings;

-- Filled with the rows that are there; emptied first, should this have been interrupted.
TRUNCATE TABLE event_types;

INSERT INTO event_types
SELECT tenant, event_type, count() AS events FROM agent_events GROUP BY tenant, event_type;

CREATE MATERIALIZED VIEW agent_events_to_event_types TO event_types AS
SELECT tenant, event_type, count() AS events FROM agent_events GROUP BY tenant, event_type;
"""
"""Statements that a later version may use to change a store with rows in it."""


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    with Supervisor(EngineSettings(store_dir=tmp_path_factory.mktemp("store"))) as running:
        yield running


def connect(engine, database):
    store = store_on(engine, database=database)
    store.prepare()
    return store


@pytest.fixture
def new_store(engine):
    """Return a store on an empty database."""
    store = connect(engine, f"db_{uuid.uuid4().hex}")
    yield store
    store.close()


@pytest.fixture
def later(tmp_path):
    """Return the migrations of a later version: the current ones and one more."""
    folder = tmp_path / "schema"
    folder.mkdir()
    (folder / "9000_event_types.sql").write_text(LATER_SCHEMA)
    return [*migrations(), *migrations(folder)]


@pytest.fixture(scope="session")
def migrated(engine):
    store = connect(engine, "tracereel")
    migrate(store)
    yield store
    store.close()


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
