"""Delivery on a real queue and a real engine: once, also when a crash hides that it was done."""

import json

import pytest
from prometheus_client import CollectorRegistry

from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.telemetry import DeliveryMetrics

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
BIG = {"max_records": 1_000, "max_bytes": 1 << 20}


@pytest.fixture
def open_queue(tmp_path):
    opened = []

    def make():
        opened.append(DurableQueue(tmp_path / "queue.sqlite", LIMITS))
        return opened[-1]

    yield make
    for queue in opened:
        queue.close()


def append(queue, lines, kind=Kind.EVENTS):
    data = b"\n".join(lines)
    body = Body(kind=kind, tenant="default", received_unix_nano=1, data=data, records=len(lines))
    return queue.append(body).result(10)


def deliver(queue, store, kind=Kind.EVENTS):
    """Run a worker until nothing of a kind waits."""
    worker = DeliveryWorker(
        queue,
        store,
        BatchLimits(max_records=1_000, max_bytes=1 << 20, linger_seconds=0.0),
        metrics=DeliveryMetrics.register(CollectorRegistry()),
        prepare=lambda: None,
        on_delivered=lambda: None,
    )
    worker.start()
    try:
        wait_until(lambda: not queue.has_open_batch(kind) and queue.pending_bytes == 0, timeout=120)
    finally:
        worker.stop(timeout=10)
    return {name: value for (name, of), value in queue.counters().items() if of == kind}


def stored(store, table="agent_events"):
    return int(store.rows(f"SELECT count() FROM {table}")[0][0])


def test_an_insert_that_landed_before_a_crash_is_not_stored_again(store, open_queue):
    """The crash comes after ClickHouse has the batch and before the queue knows it."""
    queue = open_queue()
    append(queue, [json.dumps(each).encode() for each in EXAMPLES])
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    store.insert(Kind.EVENTS, queue.bodies_of(batch), token=batch.token)
    queue.close()

    counted = deliver(open_queue(), store)

    assert stored(store) == len(EXAMPLES)
    assert (counted["appended"], counted["stored"]) == (8, 8)


def test_what_came_after_a_sealed_batch_is_delivered_too(store, open_queue):
    queue = open_queue()
    append(queue, [json.dumps(EXAMPLES[0]).encode()])
    queue.next_batch(Kind.EVENTS, **BIG)
    append(queue, [json.dumps(each).encode() for each in EXAMPLES[1:]])
    queue.close()

    deliver(open_queue(), store)

    assert stored(store) == len(EXAMPLES)


def test_a_corrupt_body_is_quarantined_and_holds_nothing_up(store, open_queue):
    queue = open_queue()
    append(queue, [b"\x0a\xff\xff\xff\xff this never was OTLP"], kind=Kind.SPANS)

    counted = deliver(queue, store, Kind.SPANS)

    assert (counted["appended"], counted["stored"], counted["quarantined"]) == (1, 0, 1)
    (entry,) = queue.quarantined(tenant="default")
    assert entry.kind == "spans"
    assert "ClickHouse code" in entry.reason
