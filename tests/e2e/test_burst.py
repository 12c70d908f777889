"""A hundred thousand events at once: all arrive, counters agree, memory stays bounded."""

import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from tests.e2e.test_sdk import ship, unused_port
from tests.support.waiting import wait_until

EVENTS = int(os.environ.get("TRACEREEL_BURST_EVENTS", "100000"))
THREADS = 8
BURST = """
import json, resource, sys, threading
import tracereel

@tracereel.traced_agent("a")
def agent(number):
    return number

def most_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def run():
    for number in range(int(sys.argv[1]) // 2 // int(sys.argv[2])):
        agent(number)

tracereel.configure()
before = most_memory()
threads = [threading.Thread(target=run) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
print("started", flush=True)
for thread in threads:
    thread.join()
result = tracereel.flush(180)
print(json.dumps([result.delivered, result.spooled, result.dropped, most_memory() - before]))
"""


def start(events, collector_url, spool):
    return subprocess.Popen(
        [sys.executable, "-c", BURST, str(events), str(THREADS)],
        env={
            **os.environ,
            "TRACEREEL_ENDPOINT": collector_url,
            "TRACEREEL_SPOOL_DIR": str(spool),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def counted(collector, name):
    return collector.metric(f"tracereel_records_{name}_total", kind="events")


@pytest.mark.fault
@pytest.mark.timeout(400)
@pytest.mark.parametrize("collector_is", ["restarted", "up", "away at first"])
def test_every_event_of_a_burst_arrives_once(new_collector, tmp_path, collector_is):
    collector = new_collector(port=unused_port())
    url = f"http://127.0.0.1:{collector.port}"
    if collector_is != "away at first":
        collector.start()
    agent = start(EVENTS, url, tmp_path / "spool")
    assert agent.stdout.readline() == "started\n"
    if collector_is == "restarted":
        wait_until(lambda: counted(collector, "appended") > EVENTS // 20, timeout=60)
        collector.kill()
    if collector_is != "up":
        collector.start()

    delivered, spooled, dropped, kilobytes = json.loads(agent.communicate(timeout=300)[0])

    assert (delivered, spooled, dropped) == (EVENTS, 0, 0)
    assert kilobytes < 64 * 1024
    wait_until(lambda: counted(collector, "stored") == EVENTS, timeout=60)
    assert counted(collector, "stored") == EVENTS
    assert counted(collector, "rejected") == counted(collector, "quarantined") == 0


@pytest.mark.fault
def test_the_numbers_of_a_killed_emitter_have_no_gap(new_collector, tmp_path):
    collector = new_collector(port=unused_port()).start()
    agent = start(EVENTS, collector.url, tmp_path / "spool")
    wait_until(lambda: counted(collector, "appended") > 1000, timeout=60)

    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    assert ship(tmp_path / "spool", collector.url).returncode == 0

    with sqlite3.connect(collector.data_dir / "queue" / "queue.sqlite") as queue:
        ((seen,),) = queue.execute("SELECT seen FROM emitters").fetchall()
    first, _, last = seen.partition("-")
    assert first == "1"
    assert int(last) == counted(collector, "appended") - counted(collector, "duplicate")
