"""Too little free disk: appends are refused while delivery continues and frees space."""

import pytest

from tests.support.waiting import wait_until
from tracereel_collector.errors import QueueUnavailableError
from tracereel_collector.model import Kind
from tracereel_collector.queue import QueueLimits


def test_appends_are_refused_while_too_little_disk_is_free(open_queue, body):
    """Refused with 503, never stored partially; accepted again without a restart."""
    free = [10_000]
    limits = QueueLimits(
        commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0, min_free_bytes=5_000
    )
    queue = open_queue(limits, free_bytes=lambda: free[0])
    queue.append(body()).result()

    free[0] = 4_999
    wait_until(lambda: queue.refusal() is not None)
    with pytest.raises(QueueUnavailableError, match="4999 bytes of disk are free, 5000 are kept"):
        queue.append(body())
    batch = queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1000)
    queue.done(batch, stored=1, quarantined=[])

    free[0] = 5_000
    wait_until(lambda: queue.refusal() is None)
    queue.append(body()).result()
    assert queue.counters()["appended", "events"] == 2
    assert queue.counters()["stored", "events"] == 1
