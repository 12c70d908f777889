"""kill -9 at random moments under load: every acknowledged event is stored exactly once."""

import os
import random
from collections import Counter
from contextlib import suppress

import clickhouse_connect
import psutil
import pytest

from tests.support.collector import http
from tests.support.conservation import conserved
from tests.support.oracle_process import Oracle, free_port
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("TRACEREEL_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("TRACEREEL_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


def kill_something(rnd, collector):
    """Kill the collector, its engine, or both at once."""
    what = rnd.choice(["collector", "collector", "engine", "both"])
    for engine in collector.engines() if what in ("engine", "both") else []:
        with suppress(psutil.Error):
            engine.kill()
    if what in ("collector", "both"):
        collector.kill()
        collector.start()


@pytest.mark.fault
@pytest.mark.timeout(max(600, 30 * ROUNDS))
def test_kill_9_loses_or_duplicates_no_acknowledged_event(new_collector):
    rnd = random.Random(SEED)
    collector = new_collector(port=free_port()).start()
    oracle = Oracle(collector.url, f"kill{SEED}", SEED)
    for _ in range(ROUNDS):
        target = oracle.count + rnd.randint(1, 1500)
        wait_until(lambda target=target: oracle.count >= target, timeout=120)
        kill_something(rnd, collector)
    assert oracle.finish() == 0, f"seed {SEED}"

    wait_until(
        lambda: collector.metric("tracereel_records_pending", kind="events") == 0, timeout=120
    )
    wrong = {}
    for trace, ids in oracle.acknowledged.items():
        replay = collector.replay(trace).json()
        found = Counter(entry["details"]["event_id"] for entry in replay["timeline"])
        if found != Counter(ids):
            wrong[trace] = (Counter(ids) - found, found - Counter(ids))
    assert wrong == {}, f"seed {SEED}"
    store = http("GET", f"{collector.url}/readyz").json()["store"]["address"].split(":")
    client = clickhouse_connect.get_client(
        host=store[0],
        port=int(store[1]),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    # Read the table itself, because the replay hides duplicates.
    rows = client.query("SELECT count(), uniqExact(event_id) FROM agent_events").result_rows
    client.close()
    assert rows == [(oracle.count, oracle.count)], f"seed {SEED}"
    counted = conserved(collector)
    assert counted["stored"] == oracle.count
    assert counted["rejected"] == counted["quarantined"] == 0
