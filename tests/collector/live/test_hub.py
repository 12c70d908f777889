"""Live tail of several tenants: a busy tenant does not affect the others."""

import asyncio
import json
from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.errors import ThrottledError
from tracereel_collector.live import hub
from tracereel_collector.live.filters import TailFilter
from tracereel_collector.live.hub import LiveTail
from tracereel_collector.live.reader import Reader
from tracereel_collector.live.records import SHOWN
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.runtime.tenant_shares import SharePolicy
from tracereel_collector.telemetry import TailMetrics

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=30)


@pytest.fixture
def queue(tmp_path):
    with closing(DurableQueue(tmp_path / "queue.sqlite", LIMITS)) as opened:
        yield opened


def new_tail(queue, **limits):
    return LiveTail(
        queue.follow(*SHOWN),
        Settings(**limits),
        TailMetrics.register(CollectorRegistry()),
        SharePolicy(has_several_tenants=lambda: True),
    )


def send(queue, tenant, name, size=0):
    event = {
        "event_id": name,
        "event_type": "custom.x",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "t",
        "payload": {"text": "x" * size},
    }
    data = json.dumps(event).encode()
    body = Body(kind=Kind.EVENTS, tenant=tenant, received_unix_nano=1, data=data, records=1)
    queue.append(body).result(10)


def test_tail_that_falls_behind_skips_records_of_the_tenant_that_sends_too_much(queue, monkeypatch):
    monkeypatch.setattr(hub, "MAX_BEHIND_BYTES", 10_000)

    async def run():
        with closing(new_tail(queue)) as tail:
            position = tail.position(None)
            tail._body_id = position.newest_body_id
            readers = [Reader(each, TailFilter(), position) for each in ("quiet", "noisy")]
            send(queue, "quiet", "first")
            for number in range(10):
                send(queue, "noisy", f"noise-{number}", size=4_000)
            tail._look(readers)
            return [(await reader.take(seconds=10))[0] for reader in readers]

    quiet, noisy = asyncio.run(run())

    assert b"first" in quiet
    assert b"event: gap" not in quiet
    assert b"event: gap" in noisy


def test_live_streams_of_one_tenant_leave_room_for_others(queue):
    async def run():
        with closing(new_tail(queue, tail_readers=4, tail_readers_per_tenant=4)) as tail:
            position = tail.position(None)
            first = tail.subscribe("noisy", TailFilter(), position)
            tail.subscribe("noisy", TailFilter(), position)
            with pytest.raises(ThrottledError, match="this tenant has 2 of 4 live streams"):
                tail.subscribe("noisy", TailFilter(), position)
            tail.subscribe("quiet", TailFilter(), position)
            tail.leave(first, "left")
            tail.leave(first, "left")
            tail.subscribe("noisy", TailFilter(), position)
            return tail._slots.used

    assert asyncio.run(run()) == 3
