"""The N-th write, sync, truncation or deletion below SQLite fails, once or permanently.

The suite tries a random sample of N; `TRACEREEL_DISK_STEP=1` tries every one.
"""

import os
import random

import pytest

from tests.support import disk as disks
from tests.support.conservation import conserved_queue
from tests.support.power import LIMITS, NAME, numbered
from tests.support.waiting import wait_until
from tracereel_collector.errors import CollectorError
from tracereel_collector.model import Kind
from tracereel_collector.queue import DurableQueue

pytestmark = pytest.mark.skipif(not disks.available, reason="SQLite's functions are not reachable")
BIG = {"max_records": 10_000, "max_bytes": 1 << 30}
BODIES = 3
STEP = int(os.environ.get("TRACEREEL_DISK_STEP", "5"))


class Nth:
    """Fault of the N-th call of a kind; with `lasting`, also of all later ones."""

    def __init__(self, what, nth, *, lasting):
        self.call, self.what = "write" if what == "short" else what, what
        self.left, self.lasting = nth, lasting
        self.struck = False

    def __call__(self, call, file):
        if call != self.call or not file.startswith(NAME):
            return None
        self.left -= 1
        strikes = self.left == 0 or (self.lasting and self.left < 0)
        self.struck = self.struck or strikes
        return self.what if strikes else None


def drained(queue):
    """Deliver everything that is queued."""
    found = []
    while batch := queue.next_batch(Kind.EVENTS, **BIG):
        bodies = queue.bodies_of(batch)
        found += [int(body.data.split()[0]) for body in bodies]
        queue.done(batch, stored=sum(body.records for body in bodies), quarantined=[])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shared queue: it continues from test to test, as it would from fault to fault."""
    return tmp_path_factory.mktemp("disk")


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("what", ["write", "short", "sync", "truncate"])
def test_any_disk_error_loses_or_duplicates_no_acknowledged_body(folder, what, lasting):
    step = STEP if what in ("write", "short") else 1
    nth, struck, number = random.randrange(step) + 1 - step, True, 0
    for old in folder.glob(f"{NAME}*"):
        old.unlink()
    with disks.watched() as disk:
        while struck:
            nth += step
            queue = DurableQueue(folder / NAME, LIMITS)
            queue._connection.execute("PRAGMA wal_autocheckpoint=6")
            mine = range(number, number + BODIES)
            number += BODIES
            disk.fault = plan = Nth(what, nth, lasting=lasting)
            acknowledged = []
            for each in mine:
                try:
                    queue.append(numbered(each)).result(10)
                    acknowledged.append(each)
                except CollectorError:
                    if lasting and what != "truncate":
                        assert queue.refusal() is not None  # readiness reports it
            struck = plan.struck
            disk.fault = lambda _call, _file: None
            # The disk works again: unacknowledged bodies are accepted without a restart.
            wait_until(lambda queue=queue: queue.refusal() is None)
            for each in mine:
                if each not in acknowledged:
                    queue.append(numbered(each)).result(10)
            if nth % 2:  # a reopened file must agree with the process that survived the fault
                queue.close()
                queue = DurableQueue(folder / NAME, LIMITS)
                assert queue.damaged_files == []
            assert sorted(set(drained(queue))) == list(mine)
            conserved_queue(queue)
            queue.close()
    assert nth > 2


def test_failed_writes_at_shutdown_lose_nothing(folder):
    """The last checkpoint and the deletion of the WAL fail; the next start has everything."""
    for call in ("write", "sync", "truncate", "delete"):
        for old in folder.glob(f"{NAME}*"):
            old.unlink()
        with disks.watched() as disk:
            queue = DurableQueue(folder / NAME, LIMITS)
            for number in range(5):
                queue.append(numbered(number)).result(10)
            disk.fault = Nth(call, 1, lasting=True)
            queue.close()
        queue = DurableQueue(folder / NAME, LIMITS)
        assert drained(queue) == list(range(5)), call
        conserved_queue(queue)
        queue.close()


def test_start_on_an_unwritable_disk_is_an_error_without_damage(folder):
    for old in folder.glob(f"{NAME}*"):
        old.unlink()
    queue = DurableQueue(folder / NAME, LIMITS)
    for number in range(5):
        queue.append(numbered(number)).result(10)
    queue.close()
    failures, nth, struck = [], 0, True
    with disks.watched() as disk:
        while struck:
            nth += 1
            disk.fault = plan = Nth("write", nth, lasting=True)
            try:
                DurableQueue(folder / NAME, LIMITS).close()
            except Exception as error:
                failures.append(error)
            struck = plan.struck
            disk.fault = lambda _call, _file: None
            assert list(folder.glob(f"{NAME}.damaged*")) == []

    queue = DurableQueue(folder / NAME, LIMITS)
    assert failures
    assert [each for each in failures if not isinstance(each, CollectorError)] == []
    assert drained(queue) == list(range(5))
    queue.close()
