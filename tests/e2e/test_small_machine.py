"""Little memory and a full disk under load: acknowledged events are stored once."""

import json
import os
import random
import threading
from collections import Counter
from contextlib import contextmanager

import clickhouse_connect
import psutil
import pytest

from tests.support.collector import http
from tests.support.conservation import conserved
from tests.support.oracle_process import Oracle, free_port
from tests.support.small_machine import memory_group, small_disk
from tests.support.waiting import wait_until

SEED = int(os.environ.get("TRACEREEL_SMALL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
ROUNDS = int(os.environ.get("TRACEREEL_SMALL_ROUNDS", "2"))
MIB = 1024 * 1024
GIB = 1024 * MIB


@contextmanager
def sql_of(collector):
    host, port = ready(collector)["store"]["address"].split(":")
    client = clickhouse_connect.get_client(
        host=host,
        port=int(port),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    yield client
    client.close()


def ready(collector):
    return http("GET", f"{collector.url}/readyz").json()


def is_stored_once(collector, *oracles):
    """Check that every acknowledged event is in the table once, and nothing else is."""
    wait_until(
        lambda: collector.metric("tracereel_records_pending", kind="events") == 0,
        timeout=120,
        message="everything is delivered",
    )
    with sql_of(collector) as client:
        rows = client.query("SELECT event_id, count() FROM agent_events GROUP BY 1").result_rows
    stored = Counter(dict(rows))
    sent = Counter(
        each for oracle in oracles for ids in oracle.acknowledged.values() for each in ids
    )
    lost, doubled = sent - stored, stored - sent
    assert (lost, doubled) == (Counter(), Counter()), f"seed {SEED}"
    counts = conserved(collector)
    assert counts["stored"] == sum(sent.values())
    assert counts["quarantined"] == counts["rejected"] == 0


@contextmanager
def load(collector, name, *, threads, mib, pause=0.0):
    """Send small events from a separate process and large ones from threads."""
    oracle = Oracle(collector.url, f"{name}{SEED}", SEED)
    large = LargeEvents(collector, threads=threads, mib=mib, pause=pause)
    try:
        yield oracle, large
        large.finish()
        assert oracle.finish() == 0, f"seed {SEED}"
    finally:
        large.finish()
        oracle.process.kill()
    is_stored_once(collector, oracle, large)


class LargeEvents:
    """Sender of large events from several threads; `acknowledged` as in the oracle."""

    def __init__(self, collector, *, threads, mib, pause):
        self.acknowledged = {}
        self._pause = pause
        self.refused = []
        self._url, self._text = f"{collector.url}/v1/events", "x" * (mib * MIB)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, sender):
        number = 0
        while not self._stop.wait(self._pause):
            number += 1
            event = {
                "event_id": f"large-{sender}-{number}",
                "event_type": "custom.large",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": f"large-{sender}",
                "text": self._text,
            }
            body = json.dumps(event).encode()
            while not self._is_acknowledged(body):
                if self._stop.wait(0.05):
                    return  # an unacknowledged event is resent until it is acknowledged
            self.acknowledged.setdefault(event["trace_id"], []).append(event["event_id"])

    def _is_acknowledged(self, body):
        try:
            answer = http("POST", self._url, body, {"Content-Type": "application/x-ndjson"})
        except OSError:
            return False
        if answer.status == 503:
            self.refused.append(answer.json()["error"])
        elif answer.status != 200:
            assert answer.status == 429, answer.body
        return answer.status == 200

    @property
    def count(self):
        return sum(map(len, list(self.acknowledged.values())))

    def finish(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.fault
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
def test_collector_in_a_gibibyte_survives_when_its_engine_is_killed(new_collector, workers):
    with memory_group(GIB) as group:
        collector = new_collector(
            port=free_port(),
            launcher=group.command,
            arguments=("--workers", str(workers)),
            # More than the machine has, as an operator may configure it.
            environ={"TRACEREEL_ENGINE_MEMORY_BYTES": str(8 * GIB)},
        ).start()
        try:
            assert collector.process.pid in group.processes
            survivors = survivors_of(collector)
            assert len(survivors) == (1 if workers == 1 else 1 + workers)
            with load(collector, "small", threads=1, mib=1, pause=0.3) as (oracle, _):
                for _ in range(ROUNDS):
                    target, kills = oracle.count + 200, group.kills
                    wait_until(lambda target=target: oracle.count >= target, timeout=120)
                    eat_memory(collector)
                    wait_until(
                        lambda kills=kills: group.kills > kills,
                        timeout=120,
                        message="the kernel killed no engine",
                    )
                    wait_until(lambda: ready(collector)["store"]["answers"], timeout=120)
                    assert "TRACEREEL_ENGINE_MEMORY_BYTES" in ready(collector)["store"]["advice"]

            assert survivors_of(collector) == survivors
            assert log_line(collector, "engine.memory_above_limit")["limit_bytes"] == GIB
            assert "TRACEREEL_ENGINE_MEMORY_BYTES" in log_line(collector, "engine.died")["reason"]
        finally:
            print(*collector.output[-60:], sep="\n")
            collector.stop()


def survivors_of(collector):
    """Return the processes that the kernel must not kill: the supervisor and any workers."""
    assert collector.process.poll() is None, collector.output
    workers = [
        child.pid
        for child in psutil.Process(collector.process.pid).children()
        if "tracereel_collector.processes.worker" in child.cmdline()
    ]
    return {collector.process.pid, *workers}


def log_line(collector, name):
    """Return the first log line with this name."""
    return next(
        json.loads(line) for line in collector.output if line.startswith("{") and name in line
    )


@pytest.mark.fault
def test_readiness_has_advice_after_a_killed_engine(new_collector):
    collector = new_collector().start()
    try:
        restarts = ready(collector)["store"]["restarts"]
        for engine in collector.engines():
            engine.kill()
        wait_until(lambda: ready(collector)["store"]["restarts"] > restarts)

        assert "TRACEREEL_ENGINE_MEMORY_BYTES" in ready(collector)["store"]["advice"]
    finally:
        collector.stop()


def eat_memory(collector):
    """Run a query in the engine that needs more memory than the machine has."""
    wait_until(lambda: ready(collector)["store"]["answers"], timeout=60)
    try:
        with sql_of(collector) as client:
            client.command(
                "SELECT length(groupArray(repeat(toString(number), 1000))) FROM numbers(2000000)",
                settings={"max_memory_usage": 8 * GIB},
            )
    except Exception as error:
        if "MEMORY_LIMIT_EXCEEDED" in str(error):
            pytest.fail("the engine was not killed")


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_engine_in_a_gibibyte_takes_half_of_it_and_refuses_what_is_too_much(new_collector):
    with memory_group(GIB) as group:
        collector = new_collector(port=free_port(), launcher=group.command).start()
        try:
            with sql_of(collector) as client:
                limit = client.query(
                    "SELECT value FROM system.server_settings"
                    " WHERE name = 'max_server_memory_usage'"
                ).result_rows
                assert limit == [(str(GIB // 2),)]
                with pytest.raises(Exception, match="MEMORY_LIMIT_EXCEEDED"):
                    client.command(
                        "SELECT length(groupArray(repeat(toString(number), 1000)))"
                        " FROM numbers(2000000)",
                        settings={"max_memory_usage": 8 * GIB},
                    )
            with load(collector, "half", threads=3, mib=3) as (oracle, large):
                wait_until(lambda: oracle.count >= 500 and large.count >= 60, timeout=120)
            assert group.kills == 0
            assert ready(collector)["store"]["restarts"] == 0
        finally:
            print(*collector.output[-60:], sep="\n")
            collector.stop()


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_full_disk_under_load_loses_nothing_and_readiness_has_advice(new_collector, tmp_path):
    with small_disk(tmp_path / "disk", mib=512) as disk:
        collector = new_collector(
            disk.folder / "data",
            port=free_port(),
            arguments=("--workers", "2"),
            # Nothing is reserved, so that writes do fail.
            environ={"TRACEREEL_MIN_FREE_BYTES": "0"},
        ).start()
        try:
            with load(collector, "full", threads=2, mib=1, pause=0.3) as (oracle, large):
                for _ in range(ROUNDS):
                    target, refused = oracle.count + 200, len(large.refused)
                    wait_until(lambda target=target: oracle.count >= target, timeout=120)

                    def is_refusing(refused=refused):
                        disk.fill()  # again: abandoned and delivered bodies free space
                        readiness = ready(collector)
                        return len(large.refused) > refused and readiness["queue"].get("reason")

                    reason = wait_until(
                        is_refusing, timeout=120, message="the disk did not get full"
                    )
                    assert "free space in the data dir" in reason
                    for engine in collector.engines():
                        engine.kill()
                    disk.fill()
                    disk.free()
                    wait_until(lambda: ready(collector)["status"] == "ready", timeout=60)

            assert collector.process.poll() is None
            assert {each["hint"] for each in large.refused} == {"free space in the data dir"}
            assert any("disk_full" in line for line in collector.output)
        finally:
            print(*collector.output[-60:], sep="\n")
            collector.stop()
