"""Deletion marks: bounded per tenant, so a busy tenant does not evict marks of another."""

from tracereel_collector.model import Marks
from tracereel_collector.queue import deleted


def runs(*names):
    return Marks(traces=frozenset(names))


def test_marks_of_a_busy_tenant_do_not_push_out_those_of_another(open_queue, monkeypatch):
    monkeypatch.setattr(deleted, "MAX_MARKS", 10)
    now = [1_000]
    queue = open_queue(now_unix_nano=lambda: now[0])
    queue.erasure.mark_deleted("quiet", runs("mine"))
    for number in range(30):
        now[0] += 1
        queue.erasure.mark_deleted("noisy", runs(f"run-{number}"))

    assert queue.erasure.is_marked("quiet", runs("mine"))
    kept = [
        number for number in range(30) if queue.erasure.is_marked("noisy", runs(f"run-{number}"))
    ]
    assert kept == list(range(21, 30))
