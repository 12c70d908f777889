"""Queue in its own directory."""

import itertools

import pytest

from tracereel_collector.model import Body, EmitterRun, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue" / "queue.sqlite"


@pytest.fixture
def open_queue(path):
    opened = []

    def make(limits=LIMITS, **options):
        queue = DurableQueue(path, limits, **options)
        opened.append(queue)
        return queue

    yield make
    for queue in opened:
        queue.close()


@pytest.fixture
def body():
    """Return a factory of bodies; each is different by default."""
    numbers = itertools.count()

    def make(*lines, runs=(), kind=Kind.EVENTS, tenant="default", rejected=0, unique=True):
        lines = lines or (b"{}",)
        data = b"\n".join(lines)
        if unique and not runs:
            data += b" " * next(numbers)
        return Body(
            kind=kind,
            tenant=tenant,
            received_unix_nano=1_000_000_000,
            data=data,
            records=len(lines),
            rejected=rejected,
            runs=tuple(EmitterRun(*run) for run in runs),
        )

    return make
