"""Time windows of the queue use a monotonic clock, independent of record timestamps."""

from tests.support.conservation import conserved_queue
from tracereel_collector.model import Kind, Marks
from tracereel_collector.queue import queue as queue_module

HOUR = 3600 * 10**9
YEAR = 365 * 24 * HOUR


def deliver(queue):
    batch = queue.next_batch(Kind.EVENTS, max_records=10**6, max_bytes=10**9)
    queue.done(batch, stored=batch.records, quarantined=[])


def test_a_step_of_the_clock_forgets_neither_duplicates_nor_deletions(
    open_queue, body, monkeypatch
):
    monkeypatch.setattr(queue_module, "FORGET_EVERY_SECONDS", -1.0)
    wall, steady = [YEAR], [YEAR]
    queue = open_queue(now_unix_nano=lambda: wall[0], steady_nano=lambda: steady[0])
    plain = body(b'{"trace_id": "kept"}')
    numbered = body(b"{}", runs=[("e", 1, 1)])
    for each in (plain, numbered):
        assert queue.append(each).result().appended == 1
    marks = Marks(traces=frozenset({"gone"}))
    queue.erasure.mark_deleted("default", marks)
    deliver(queue)

    for step in (HOUR, YEAR, -YEAR // 2):
        wall[0] += step
        queue.tidy()
        for each in (plain, numbered):
            assert queue.append(each).result().duplicates == 1
        assert queue.append(body(b'{"trace_id": "gone"}')).result().appended == 0

    steady[0] += HOUR  # longer than digests are kept
    queue.tidy()
    assert queue.append(plain).result().appended == 1
    assert queue.append(numbered).result().duplicates == 1
    deliver(queue)
    conserved_queue(queue)
