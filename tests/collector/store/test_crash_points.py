"""The process dies at each named point between append and delivery: no loss, no duplicates."""

import os
import subprocess
import sys

import pytest

from tests.collector.store.conftest import connect
from tests.support.conservation import conserved_queue
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.store.migrate import migrate

EVENTS = 10
POINTS = (
    *("before_commit:5", "after_commit:5", "before_insert:3", "after_insert:3"),
    *("before_done:2", "after_done:1"),
)


@pytest.fixture(scope="module")
def crash_store(engine):
    store = connect(engine, "crashes")
    migrate(store)
    yield store
    store.close()


@pytest.mark.fault
@pytest.mark.parametrize("point", POINTS)
def test_crash_at_each_point_loses_and_duplicates_nothing(point, engine, crash_store, tmp_path):
    crash_store.command("TRUNCATE TABLE agent_events")
    path = tmp_path / "queue.sqlite"

    def run(crash_at):
        return subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.crashing", str(path), engine.host),
                *(str(engine.port), engine.secret, "crashes", str(EVENTS)),
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
