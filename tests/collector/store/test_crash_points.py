"""The process dies at each named point between append and delivery: no loss, no duplicates."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.collector.store.conftest import connect
from tests.support.conservation import conserved_queue
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.store.migrate import migrate

EVENTS = 10
DATABASE = f"db_{uuid.uuid4().hex}"
POINTS = (
    *("before_commit:5", "after_commit:5", "before_insert:3", "after_insert:3"),
    *("before_done:2", "after_done:1"),
)


@pytest.fixture(scope="module")
def crash_store(place):
    store = connect(place, DATABASE)
    migrate(store)
    yield store
    store.close()


@pytest.mark.fault
@pytest.mark.parametrize("point", POINTS)
def test_crash_at_each_point_loses_and_duplicates_nothing(point, place, crash_store, tmp_path):
    crash_store.command("TRUNCATE TABLE agent_events")
    path = tmp_path / "queue.sqlite"

    def run(crash_at):
        return subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.crashing", str(path), place.host),
                *(str(place.port), place.password, DATABASE, str(EVENTS)),
            ],
            env={**os.environ, "TRACEREEL_CRASH_AT": crash_at},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    crashed = run(point)
    assert crashed.returncode == 137, crashed.stderr
    again = run("")
    assert again.returncode == 0, again.stderr

    rows = crash_store.rows("SELECT count(), uniqExact(event_id) FROM agent_events")
    assert rows == [(str(EVENTS), str(EVENTS))]
    queue = DurableQueue(
        path, QueueLimits(commit_bytes=1, max_pending_bytes=1 << 30, retain_seconds=0)
    )
    counts = conserved_queue(queue)
    queue.close()
    assert counts["stored"] == EVENTS
    # Bodies that were acknowledged before the crash are duplicates afterwards.
    assert counts["duplicate"] >= len(crashed.stdout.split())
