"""kill -9 at random moments under load: every acknowledged event is stored exactly once.

On the embedded engine and on a ClickHouse server, which is killed and started again like the engine.
"""

import os
import random
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from tests.support.clickhouse_server import new_database
from tests.support.conservation import conserved
from tests.support.oracle_process import Oracle, free_port
from tests.support.store_client import store_client
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("TRACEREEL_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("TRACEREEL_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


@pytest.fixture(params=["embedded", "server"])
def server(request):
    """Return a server that may be killed; None for the embedded engine."""
    return request.getfixturevalue("new_server")().start() if request.param == "server" else None


def kill_something(rnd, collector, server):
    """Kill the collector, its store, or both at once."""
    what = rnd.choice(["collector", "collector", "store", "both"])
    if what in ("store", "both"):
        for engine in collector.engines():
            with suppress(psutil.Error):
                engine.kill()
        if server is not None:
            server.kill()
    if what in ("collector", "both"):
        collector.kill()
    if server is not None and what in ("store", "both"):
        server.start()
    if what in ("collector", "both"):
        collector.start()


@pytest.mark.fault
@pytest.mark.timeout(max(600, 30 * ROUNDS))
def test_kill_9_loses_or_duplicates_no_acknowledged_event(new_collector, server):
    rnd = random.Random(SEED)
    arguments = () if server is None else ("--store", new_database(server.dsn))
    collector = new_collector(port=free_port(), arguments=arguments).start()
    oracle = Oracle(collector.url, f"kill{SEED}", SEED)
    for _ in range(ROUNDS):
        target = oracle.count + rnd.randint(1, 1500)
        wait_until(lambda target=target: oracle.count >= target, timeout=120)
        kill_something(rnd, collector, server)
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
    with store_client(collector) as client:
        # Read the table itself, because the replay hides duplicates.
        rows = client.query("SELECT count(), uniqExact(event_id) FROM agent_events").result_rows
        ((summed,),) = client.query("SELECT sum(events) FROM trace_summaries").result_rows
    assert rows == [(oracle.count, oracle.count)], f"seed {SEED}"
    assert summed == oracle.count, f"the rollups, seed {SEED}"
    counted = conserved(collector)
    assert counted["stored"] == oracle.count
    assert counted["rejected"] == counted["quarantined"] == 0
