"""Unknown ClickHouse error codes: decide whether records or the store are at fault."""

import json
import uuid
from contextlib import closing, contextmanager

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.collector.store.test_delivery import LIMITS, append, stored
from tests.support.conservation import conserved_queue
from tests.support.flaky_proxy import FlakyProxy
from tests.support.waiting import wait_until
from tracereel_collector.deliver import worker as delivery
from tracereel_collector.deliver.poison import FEW
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.model import Kind
from tracereel_collector.queue import DurableQueue
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress
from tracereel_collector.store.error_codes import DATA_ERRORS, TEMPORARY_ERRORS
from tracereel_collector.store.migrate import migrate
from tracereel_collector.telemetry import DeliveryMetrics

MANY = 4 * FEW


@pytest.fixture(scope="module")
def proxy(engine):
    with closing(FlakyProxy(engine.host, engine.port)) as running:
        yield running


@pytest.fixture(scope="module")
def behind(engine, proxy):
    """Return a store behind the proxy."""
    address = StoreAddress(
        host="127.0.0.1",
        port=proxy.port,
        username="tracereel",
        password=engine.secret,
        database=f"db_{uuid.uuid4().hex}",
    )
    with closing(ClickHouseStore(address, query_seconds=20, query_memory_bytes=1 << 30)) as store:
        store.prepare()
        migrate(store)
        yield store


@pytest.fixture
def site(behind, proxy, tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "UNKNOWN_SECONDS", 0.3)
    monkeypatch.setattr(delivery, "UNKNOWN_SECONDS_OF_FEW", 0.6)
    monkeypatch.setattr(delivery, "LAST_BACKOFF", 0.1)
    behind.command("TRUNCATE TABLE agent_events")
    proxy.poison, proxy.left = None, 0
    with closing(DurableQueue(tmp_path / "queue.sqlite", LIMITS)) as queue:
        yield Site(behind, queue)
    proxy.poison, proxy.left = None, 0


class Site:
    def __init__(self, store, queue):
        self.store, self.queue = store, queue
        self.registry = CollectorRegistry()

    @contextmanager
    def delivering(self):
        worker = DeliveryWorker(
            self.queue,
            self.store,
            BatchLimits(max_records=1_000, max_bytes=1 << 20, linger_seconds=0.0),
            metrics=DeliveryMetrics.register(self.registry),
            prepare=lambda: None,
            on_delivered=lambda: None,
        )
        worker.start()
        try:
            yield
        finally:
            worker.stop(timeout=10)

    def all_is_delivered(self):
        return not self.queue.has_open_batch(Kind.EVENTS) and self.queue.pending_bytes == 0

    def taken_apart(self, because_of):
        labels = {"kind": "events", "because_of": because_of}
        return self.registry.get_sample_value("tracereel_unknown_refusals_total", labels) or 0

    def send(self, *names):
        lines = [
            json.dumps(
                {
                    "event_id": name,
                    "event_type": "custom.x",
                    "timestamp": "2026-01-23T10:00:00Z",
                    "trace_id": "t",
                }
            ).encode()
            for name in names
        ]
        append(self.queue, lines)


def test_a_record_that_fails_alone_is_quarantined_with_the_reason(site, proxy):
    site.send(*(f"e{n}" for n in range(MANY)), "poison", *(f"f{n}" for n in range(MANY)))
    proxy.poison = b"poison"

    with capture_logs() as lines, site.delivering():
        wait_until(site.all_is_delivered, timeout=60)

    assert stored(site.store) == 2 * MANY
    (entry,) = site.queue.quarantine.entries(tenant="default")
    assert entry.sequence_number == MANY + 1
    assert "ClickHouse code 49" in entry.reason
    assert site.taken_apart("records") == 1
    (said,) = [line for line in lines if line["event"] == "records_quarantined"]
    assert (said["records"], "code 49" in said["reason"]) == (1, True)
    assert conserved_queue(site.queue)["quarantined"] == 1


def test_records_are_kept_when_the_store_refuses_everything(site, proxy):
    site.send(*(f"e{n}" for n in range(MANY)))
    proxy.poison = b"custom.x"

    with capture_logs() as lines, site.delivering():
        wait_until(lambda: site.taken_apart("store") >= 2, timeout=60)
        assert site.queue.quarantine.entries(tenant="default") == []
        proxy.poison = None
        wait_until(site.all_is_delivered, timeout=60)

    assert stored(site.store) == MANY
    assert site.taken_apart("records") == 0
    said = [line for line in lines if line["event"] == "store_refuses_everything"]
    assert "code 49" in said[0]["reason"]
    assert conserved_queue(site.queue)["stored"] == MANY


def test_single_refused_record_does_not_block_the_queue(site, proxy):
    site.send("poison")
    proxy.poison = b"poison"

    with site.delivering():
        wait_until(lambda: site.queue.quarantine.entries(tenant="default"), timeout=60)
        site.send("next")
        wait_until(site.all_is_delivered, timeout=60)

    assert site.store.rows("SELECT event_id FROM agent_events") == [("next",)]


def test_transient_unknown_error_quarantines_nothing(site, proxy):
    site.send("a", "b")
    proxy.fail("strange", times=2)

    with site.delivering():
        wait_until(site.all_is_delivered, timeout=60)

    assert stored(site.store) == 2
    assert site.queue.quarantine.entries(tenant="default") == []
    assert site.taken_apart("records") == site.taken_apart("store") == 0


def test_a_stop_meanwhile_sets_nothing_aside(site, proxy):
    site.send("poison")
    proxy.poison = b"poison"

    with site.delivering():
        wait_until(lambda: "strange" in proxy.seen or site.queue.has_open_batch(Kind.EVENTS))

    assert site.queue.quarantine.entries(tenant="default") == []
    assert site.queue.has_open_batch(Kind.EVENTS)


def test_transient_error_codes_have_clickhouse_names(behind):
    for code, name in TEMPORARY_ERRORS.items():
        assert behind.rows(f"SELECT errorCodeToName({code})") == [(name,)]
    assert not DATA_ERRORS & TEMPORARY_ERRORS.keys()
