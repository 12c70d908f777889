"""Deletions wait while a backup is being made."""

import pytest

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.deliver.deletion_queues import OwnQueue
from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.store.deletion import RunsToDelete


class Rows:
    """Empty store that records whether it was queried."""

    def __init__(self):
        self.asked = []

    def rows(self, statement, **_):
        self.asked.append(statement)
        return []

    def select(self, statement, parameters, *, fmt):
        self.asked.append(statement)
        return b""

    def change(self, statement, parameters):
        self.asked.append(statement)


def test_deletion_waits_for_a_backup_until_it_times_out(tmp_path):
    queue = DurableQueue(
        tmp_path / "queue.sqlite",
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 20, retain_seconds=0),
    )
    store, writers = Rows(), StoreWriters(tmp_path)
    deletion = Deletion(
        OwnQueue(queue),
        store,
        AuditLog(tmp_path / "audit"),
        StoreWriters(tmp_path),
        wait_seconds=0.05,
    )
    runs = RunsToDelete(tenant="a", ids=["t"], otel=[], shared=[], spans=[])

    with (
        writers.paused(timeout=1),
        pytest.raises(ServiceUnavailableError, match="a backup is being made"),
    ):
        deletion._delete(runs)

    assert store.asked == []
    assert deletion._delete(runs) == {}
    assert store.asked != []
    queue.close()
