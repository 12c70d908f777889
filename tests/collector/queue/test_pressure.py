"""Queue pressure: age of the oldest waiting record and remaining capacity."""

from tracereel_collector.model import Kind
from tracereel_collector.queue import QueueLimits

LIMITS = QueueLimits(
    commit_bytes=1 << 20, max_pending_bytes=1_000, retain_seconds=3600, min_free_bytes=5_000
)
RECEIVED = 1_000_000_000  # arrival time of the bodies in these tests


def test_the_oldest_record_ages_until_it_is_stored(open_queue, body):
    """Sealing a batch makes no difference; delivered records do not count."""
    now = [RECEIVED]
    queue = open_queue(LIMITS, now_unix_nano=lambda: now[0], free_bytes=lambda: 70_000)
    assert queue.pressure().oldest_seconds == 0.0

    queue.append(body()).result()
    now[0] += 2_500_000_000
    assert queue.pressure().oldest_seconds == 2.5

    batch = queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1000)
    assert queue.pressure().oldest_seconds == 2.5

    queue.done(batch, stored=1, quarantined=[])
    assert queue.pressure().oldest_seconds == 0.0

    queue.append(body(kind=Kind.SPANS)).result()
    assert queue.pressure().oldest_seconds == 2.5


def test_pressure_reports_limits_and_free_disk(open_queue):
    queue = open_queue(LIMITS, free_bytes=lambda: 70_000)

    told = queue.pressure()

    assert (told.limit_bytes, told.disk_free_bytes, told.disk_kept_bytes) == (1_000, 70_000, 5_000)
    assert told.quarantined_bytes == 0
