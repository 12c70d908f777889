"""Delivery on a real queue and engine: exactly once, even after a crash."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel_collector.deliver.worker import BatchLimits, DeliveryWorker
from tracereel_collector.errors import (
    StoreUnavailableError,
    TooMuchAtOnceError,
    UnknownRefusalError,
)
from tracereel_collector.model import Body, Kind, QueuedBody
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.store.clickhouse import BadDataError
from tracereel_collector.telemetry import DeliveryMetrics

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
EVENT = (
    b'{"event_id":"%b","event_type":"custom.a","timestamp":"2026-01-23T10:00:00Z","trace_id":"t"}'
)
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


@contextmanager
def delivery(queue, store, **limits):
    """Run a worker."""
    given = {"max_records": 1_000, "max_bytes": 1 << 20, "linger_seconds": 0.0, **limits}
    worker = DeliveryWorker(
        queue,
        store,
        BatchLimits(**given),
        metrics=DeliveryMetrics.register(CollectorRegistry()),
        prepare=lambda: None,
        on_delivered=lambda: None,
    )
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(timeout=10)


def deliver(queue, store, kind=Kind.EVENTS):
    """Run a worker until no body of a kind is queued."""
    with delivery(queue, store):
        wait_until(lambda: not queue.has_open_batch(kind) and queue.pending_bytes == 0, timeout=120)
    return {name: value for (name, of), value in queue.counters().items() if of == kind}


def stored(store, table="agent_events"):
    return int(store.rows(f"SELECT count() FROM {table}")[0][0])


def test_an_insert_that_landed_before_a_crash_is_not_stored_again(store, open_queue):
    """The crash comes after ClickHouse has the batch and before the queue records it."""
    queue = open_queue()
    append(queue, [json.dumps(each).encode() for each in EXAMPLES])
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    store.insert(Kind.EVENTS, queue.bodies_of(batch), token=batch.token)
    queue.close()

    counted = deliver(open_queue(), store)

    assert stored(store) == len(EXAMPLES)
    assert (counted["appended"], counted["stored"]) == (8, 8)


class Inserts:
    """Store that notes its inserts."""

    def __init__(self, store):
        self._store = store
        self.bodies = []
        self.began = threading.Event()

    def insert(self, kind, bodies, *, token):
        self._store.insert(kind, bodies, token=token)
        self.bodies.append(len(bodies))
        self.began.set()

    def missing(self, kind, bodies):
        return self._store.missing(kind, bodies)


def test_unread_records_wait_until_they_are_hurried(store, open_queue, monkeypatch):
    monkeypatch.setattr("tracereel_collector.deliver.worker.READ_SECONDS", 0.0)
    queue, inserts = open_queue(), Inserts(store)
    with delivery(queue, inserts, unread_seconds=3600):
        append(queue, [EVENT % b"e0"])
        assert not inserts.began.wait(1.0)
        append(queue, [EVENT % b"e1"])
        queue.hurry(Kind.EVENTS)
        wait_until(lambda: queue.pending_bytes == 0, timeout=60)

    assert inserts.bodies == [2]
    assert stored(store) == 2


def test_unread_records_are_stored_after_a_time(store, open_queue, monkeypatch):
    monkeypatch.setattr("tracereel_collector.deliver.worker.READ_SECONDS", 0.0)
    queue = open_queue()
    with delivery(queue, store, unread_seconds=0.6):
        append(queue, [EVENT % b"e0"])
        wait_until(lambda: queue.pending_bytes == 0, timeout=60)

    assert stored(store) == 1


def test_many_unread_records_do_not_wait(store, open_queue, monkeypatch):
    monkeypatch.setattr("tracereel_collector.deliver.worker.READ_SECONDS", 0.0)
    monkeypatch.setattr("tracereel_collector.deliver.worker.WORTHY_BYTES", 200)
    queue = open_queue()
    with delivery(queue, store, unread_seconds=3600):
        append(queue, [EVENT % f"e{number}".encode() for number in range(5)])
        wait_until(lambda: queue.pending_bytes == 0, timeout=60)

    assert stored(store) == 5


def test_records_do_not_wait_while_there_are_reads(store, open_queue):
    queue = open_queue()
    queue.hurry(Kind.EVENTS)
    with delivery(queue, store, unread_seconds=3600):
        for number in range(2):
            append(queue, [EVENT % f"e{number}".encode()])
            wait_until(lambda: queue.pending_bytes == 0, timeout=60)

    assert stored(store) == 2


def test_bodies_after_a_sealed_batch_are_delivered(store, open_queue):
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
    (entry,) = queue.quarantine.entries(tenant="default")
    assert entry.kind == "spans"
    assert "ClickHouse code" in entry.reason


@pytest.mark.fault
@pytest.mark.parametrize("error", [TooMuchAtOnceError, BadDataError, UnknownRefusalError])
def test_a_batch_that_is_stored_is_not_taken_apart_because_it_cannot_be_looked_up(
    store, open_queue, error, monkeypatch
):
    monkeypatch.setattr("tracereel_collector.deliver.worker.UNKNOWN_SECONDS", 0.0)
    queue = open_queue()
    for number in range(3):
        append(queue, [EVENT % f"e{number}-{step}".encode() for step in range(2)])
    failures = iter([error("not now")] * 5)

    class Short:
        insert = staticmethod(store.insert)
        without_stored = staticmethod(store.without_stored)

        def missing(self, kind, bodies):
            if (failure := next(failures, None)) is not None:
                raise failure
            return store.missing(kind, bodies)

    counted = deliver(queue, Short())

    assert stored(store) == 6
    assert (counted["stored"], counted["quarantined"]) == (6, 0)


def test_rows_of_another_collector_with_the_same_numbers_are_not_taken_for_ours(store):
    theirs = QueuedBody(
        id=1,
        kind=Kind.EVENTS,
        tenant="default",
        first_sequence_number=1,
        records=1,
        received_unix_nano=1_769_162_400_000_000_001,
        data=EVENT % b"theirs",
    )
    ours = replace(theirs, received_unix_nano=theirs.received_unix_nano + 1)
    store.insert(Kind.EVENTS, [theirs], token="theirs")
    assert store.missing(Kind.EVENTS, [theirs, ours]) == [ours]
    assert store.without_stored(Kind.EVENTS, [theirs, ours]) == [ours]


@pytest.mark.fault
@pytest.mark.parametrize("error", [TooMuchAtOnceError, BadDataError])
@pytest.mark.parametrize("lost", [1, 4])
def test_a_stored_batch_without_an_answer_is_not_stored_again_in_parts(
    store, open_queue, error, lost
):
    """The answer is lost, then the store refuses: parts have other tokens than the whole batch."""
    queue = open_queue()
    for number in range(3):
        append(queue, [EVENT % f"e{number}-{step}".encode() for step in range(2)])
    attempts = iter(range(1, 1000))

    class LosesAnswers:
        missing = staticmethod(store.missing)
        without_stored = staticmethod(store.without_stored)

        def insert(self, kind, bodies, *, token):
            attempt = next(attempts)
            if attempt == lost:
                store.insert(kind, bodies, token=token)
                raise StoreUnavailableError("the connection was cut")
            if attempt < 15:
                raise error("not now")
            store.insert(kind, bodies, token=token)

    counted = deliver(queue, LosesAnswers())

    assert stored(store) == 6
    assert (counted["stored"], counted["quarantined"]) == (6, 0)
