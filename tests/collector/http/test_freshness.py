"""Reads after a pause wait until what was acknowledged before them is stored."""

import asyncio

import pytest

from tracereel_collector.http import freshness
from tracereel_collector.http.freshness import DeliveryNotice, StoreReads
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
BODY = Body(kind=Kind.EVENTS, tenant="default", received_unix_nano=1, data=b"{}", records=1)


@pytest.fixture
def queue(tmp_path):
    queue = DurableQueue(tmp_path / "queue.sqlite", LIMITS)
    yield queue
    queue.close()


@pytest.fixture
def pause(monkeypatch):
    """Every read is the first after a pause."""
    monkeypatch.setattr(freshness, "PAUSE_SECONDS", 0.0)


def deliver(queue):
    batch = queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1 << 20)
    queue.done(batch, stored=1, quarantined=[])


def test_a_first_read_hurries_and_waits_for_what_was_acknowledged(queue, pause):
    delivered = DeliveryNotice()
    reads = StoreReads(queue, delivered, is_held=True)
    queue.append(BODY).result(10)

    async def run():
        begun = [asyncio.create_task(reads.begin()) for _ in range(3)]
        done, _ = await asyncio.wait(begun, timeout=0.3)
        assert not done
        assert queue.is_hurried(Kind.EVENTS)
        await asyncio.to_thread(deliver, queue)
        delivered.notify()
        await asyncio.wait_for(asyncio.gather(*begun), 30)

    asyncio.run(run())


def test_a_first_read_does_not_wait_longer_than_its_limit(queue, pause, monkeypatch):
    monkeypatch.setattr(freshness, "CATCH_UP_SECONDS", 0.05)
    reads = StoreReads(queue, DeliveryNotice(), is_held=True)
    queue.append(BODY).result(10)

    asyncio.run(asyncio.wait_for(reads.begin(), 30))


def test_a_first_read_of_an_empty_queue_does_not_wait(queue, pause):
    asyncio.run(asyncio.wait_for(StoreReads(queue, DeliveryNotice(), is_held=True).begin(), 2))


def test_a_read_soon_after_another_does_not_wait(queue):
    reads = StoreReads(queue, DeliveryNotice(), is_held=True)
    queue.append(BODY).result(10)

    asyncio.run(asyncio.wait_for(reads.begin(), 2))


def test_reads_do_nothing_where_delivery_does_not_wait_for_them(queue, pause):
    reads = StoreReads(queue, DeliveryNotice(), is_held=False)
    queue.append(BODY).result(10)

    asyncio.run(asyncio.wait_for(reads.begin(), 2))

    assert not queue.is_hurried(Kind.EVENTS)
