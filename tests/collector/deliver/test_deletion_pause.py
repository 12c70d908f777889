"""Deletion and backups: rows are not removed while a backup is made of them."""

import pytest

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.deliver.deletion import Deletion
from tracereel_collector.errors import UnavailableError
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.store.deletion import Runs


class Rows:
    """A store that has none, and says whether it was asked."""

    def __init__(self):
        self.asked = []

    def rows(self, statement):
        self.asked.append(statement)
        return []

    def select(self, statement, parameters, *, fmt):
        self.asked.append(statement)
        return b""

    def change(self, statement, parameters):
        self.asked.append(statement)


def test_a_deletion_waits_for_a_backup_and_then_says_so(tmp_path):
    queue = DurableQueue(
        tmp_path / "queue.sqlite",
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 20, retain_seconds=0),
    )
    store, writers = Rows(), StoreWriters(tmp_path)
    deletion = Deletion(
        queue, store, AuditLog(tmp_path / "audit"), StoreWriters(tmp_path), wait_seconds=0.05
    )
    runs = Runs(tenant="a", ids=["t"], otel=[], shared=[], spans=[])

    with writers.paused(timeout=1), pytest.raises(UnavailableError, match="a backup is being made"):
        deletion._delete(runs)

    assert store.asked == []
    assert deletion._delete(runs) == {}
    assert store.asked != []
    queue.close()
