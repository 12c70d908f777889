"""A real engine with a database for each test module."""

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

TABLES = (
    *("agent_events", "otel_spans", "otel_span_events", "model_usage", "model_prices"),
    *("trace_summaries", "trace_texts", "agent_minutes", "agent_hours"),
)
RECEIVED = 1_769_162_400_000_000_000


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
    """A store on an empty database of its own."""
    store = connect(engine, f"db_{uuid.uuid4().hex}")
    yield store
    store.close()


@pytest.fixture(scope="session")
def migrated(engine):
    store = connect(engine, "tracereel")
    migrate(store)
    yield store
    store.close()


@pytest.fixture
def store(migrated):
    """A migrated store with nothing in it; tokens are still remembered, so use `token`."""
    for table in TABLES:
        migrated.command(f"TRUNCATE TABLE {table}")
    return migrated


@pytest.fixture
def token():
    """A token nobody used before."""
    return uuid.uuid4().hex


@pytest.fixture
def queued():
    """Builds bodies as delivery reads them from the queue, with numbers that follow each other."""
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
    """Builds bodies for tests that share the store, each with tenants of its own."""
    return itertools.count(1)


@pytest.fixture
def tenant():
    """Nobody else's: what others stored is not to be seen, so that nothing need be emptied."""
    return f"tenant-{uuid.uuid4().hex}"


@pytest.fixture
def told(migrated, sequence, tenant):
    """Stores events as lines of one body."""

    def insert(*events, tenant=tenant):
        data = b"\n".join(json.dumps(each).encode() for each in events)
        insert_body(migrated, Kind.EVENTS, data, len(events), tenant, sequence)

    return insert


@pytest.fixture
def spans(migrated, sequence, tenant):
    """Stores the spans of an OTLP request."""

    def insert(request, tenant=tenant):
        insert_body(migrated, Kind.SPANS, request, 1, tenant, sequence)

    return insert


@pytest.fixture
def beat(migrated, sequence, tenant):
    """Stores what an emitter says of itself; it claims no numbers, because those of old events are
    forgotten as soon as they are stored."""

    def insert(emitter_id, state, tenant=tenant, recorded=0):
        said = {"emitter_id": emitter_id, "state": state, "interval_seconds": 1e9}
        said["recorded"] = recorded
        # Now: what emitters said long ago is forgotten.
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
