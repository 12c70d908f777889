"""Requirements on any ClickHouse: the embedded engine, the same behind a faulty proxy, a server."""

import json
import uuid

import pytest

from tests.collector.store.test_delivery import LIMITS, append, deliver
from tests.support.clickhouse_server import new_database
from tests.support.conservation import conserved_queue
from tests.support.contract import EXAMPLES
from tests.support.flaky_proxy import FAULTS, FlakyProxy
from tracereel_collector.errors import StoreUnavailableError, TooMuchAtOnceError
from tracereel_collector.model import Kind
from tracereel_collector.queue import DurableQueue
from tracereel_collector.store.clickhouse import BadDataError, ClickHouseStore, StoreAddress
from tracereel_collector.store.migrate import migrate

LINES = [json.dumps(each).encode() for each in EXAMPLES]


@pytest.fixture(scope="module")
def proxy(engine):
    running = FlakyProxy(engine.host, engine.port)
    yield running
    running.close()


def open_store(address):
    store = ClickHouseStore(address, query_seconds=20, query_memory_bytes=1 << 30)
    store.prepare()
    migrate(store)
    return store


@pytest.fixture(params=["embedded", "proxy", "server"], scope="module")
def backend(request, engine, proxy):
    if request.param == "server":
        server = request.getfixturevalue("clickhouse_server")
        address = StoreAddress.parse(new_database(server))
    else:
        address = StoreAddress(
            host="127.0.0.1",
            port=proxy.port if request.param == "proxy" else engine.port,
            username="tracereel",
            password=engine.secret,
            database=f"backend_{request.param}",
        )
    store = open_store(address)
    yield store
    store.close()


@pytest.fixture
def clean(backend):
    for table in ("agent_events", "otel_spans"):
        backend.command(f"TRUNCATE TABLE {table}")
    return backend


@pytest.fixture
def behind_proxy(engine, proxy):
    """Return a store behind the proxy, on tables without other writers."""
    store = open_store(
        StoreAddress(
            host="127.0.0.1",
            port=proxy.port,
            username="tracereel",
            password=engine.secret,
            database="backend_faults",
        )
    )
    store.command("TRUNCATE TABLE agent_events")
    proxy.seen.clear()
    yield store
    proxy.left, proxy.away = 0, False
    store.close()


def counted(store):
    rows = store.rows("SELECT count(), uniqExact(event_id) FROM agent_events")
    return tuple(map(int, rows[0]))


def test_migrating_again_changes_nothing(backend):
    assert migrate(backend) == []


def test_a_token_is_stored_once(clean, queued):
    body, token = queued(b"\n".join(LINES)), uuid.uuid4().hex

    for _ in range(3):
        clean.insert(Kind.EVENTS, [body], token=token)

    assert counted(clean) == (len(LINES), len(LINES))


def test_another_token_is_stored_beside_it(clean, queued):
    clean.insert(Kind.EVENTS, [queued(LINES[0])], token=uuid.uuid4().hex)
    clean.insert(Kind.EVENTS, [queued(LINES[1])], token=uuid.uuid4().hex)

    assert counted(clean) == (2, 2)


def test_corrupt_body_raises_bad_data_error_and_stores_nothing(clean, queued):
    poison = queued(b"\x0a\xff\xff\xff\xff no protobuf", records=1, kind=Kind.SPANS)

    with pytest.raises(BadDataError):
        clean.insert(Kind.SPANS, [poison], token=uuid.uuid4().hex)

    assert clean.rows("SELECT count() FROM otel_spans") == [("0",)]


def test_query_values_are_bound_parameters(clean, queued):
    clean.insert(Kind.EVENTS, [queued(LINES[0])], token=uuid.uuid4().hex)
    hostile = "x' OR 1=1; DROP TABLE agent_events; --"

    found = clean.select(
        "SELECT count() FROM agent_events WHERE trace_id = {t:String}", {"t": hostile}, fmt="CSV"
    )

    assert found.strip() == b"0"
    assert counted(clean) == (1, 1)


def test_memory_and_time_limits_raise_their_own_errors(clean):
    with pytest.raises(TooMuchAtOnceError):
        clean.rows(
            "SELECT length(groupArray(number)) FROM numbers(10000000)"
            " SETTINGS max_memory_usage = 1000000"
        )
    with pytest.raises(StoreUnavailableError):
        clean.rows(
            "SELECT sum(sleepEachRow(1)) FROM numbers(3)"
            " SETTINGS max_execution_time = 1, max_block_size = 1"
        )


@pytest.mark.parametrize("fault", ["refuse", "drop_before", "drop_after", "cut"])
def test_insert_with_unknown_outcome_is_retried_and_stored_once(behind_proxy, proxy, queued, fault):
    """Ten times, because the driver retries some of them itself."""
    body, token = queued(b"\n".join(LINES)), uuid.uuid4().hex
    proxy.fail(fault, times=10)

    with pytest.raises(StoreUnavailableError):
        behind_proxy.insert(Kind.EVENTS, [body], token=token)
    proxy.left = 0
    behind_proxy.insert(Kind.EVENTS, [body], token=token)

    assert counted(behind_proxy) == (len(LINES), len(LINES))


@pytest.mark.fault
def test_delivery_through_every_fault_stores_everything_once(behind_proxy, proxy, tmp_path):
    queue = DurableQueue(tmp_path / "queue.sqlite", LIMITS)
    try:
        for number, fault in enumerate(FAULTS):
            lines = [
                json.dumps({**EXAMPLES[0], "event_id": f"{fault}-{n}", "trace_id": fault}).encode()
                for n in range(20)
            ]
            append(queue, lines)
            proxy.fail(fault, times=1 + number % 2)
            deliver(queue, behind_proxy)

        assert counted(behind_proxy) == (20 * len(FAULTS),) * 2
        counts = conserved_queue(queue)
        assert (counts["stored"], counts["quarantined"]) == (20 * len(FAULTS), 0)
        assert set(FAULTS) <= set(proxy.seen)
    finally:
        queue.close()
