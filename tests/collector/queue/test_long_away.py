"""A sender that returns after two months resends unacknowledged events."""

from dataclasses import replace

import pytest

from tests.collector.queue.test_queue import append
from tracereel_collector.model import Kind
from tracereel_collector.queue import batches
from tracereel_collector.queue.deleted import Marks

DAY = 86_400 * 1_000_000_000
START = 1_790_000_000 * 1_000_000_000


@pytest.fixture
def aged(open_queue):
    """Return a queue and a function that advances its clock by days."""
    clock = [START]
    queue = open_queue(steady_nano=lambda: clock[0])

    def pass_days(days):
        clock[0] += days * DAY
        queue._writer.submit(
            lambda connection: batches.forget_old(connection, now=clock[0], retain_seconds=0)
        ).result()
        return clock[0]

    return queue, pass_days


def test_a_resend_after_two_months_is_a_duplicate(aged, body):
    queue, pass_days = aged
    sent = replace(body(b"{}", b"{}", runs=[("emt_1", 1, 2)]), received_unix_nano=START)
    assert append(queue, sent).appended == 2

    now = pass_days(60)

    assert append(queue, replace(sent, received_unix_nano=now)).duplicates == 2


def test_a_deleted_run_stays_deleted_for_a_sender_that_returns_after_two_months(aged, body):
    queue, pass_days = aged
    queue.erasure.mark_deleted("default", Marks(traces=frozenset({"trc_gone"})))

    now = pass_days(60)
    late = body(b'{"event_id":"e1","trace_id":"trc_gone"}', kind=Kind.EVENTS)

    receipt = append(queue, replace(late, received_unix_nano=now))
    assert (receipt.appended, queue.counters()["rejected:deleted", Kind.EVENTS]) == (0, 1)
