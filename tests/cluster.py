"""Oracle rounds on a ClickHouse cluster: kill, refuse and upgrade parts of it under load, then count.

    python -m tests.cluster LAB [--rounds 40] [--minutes M] [--seed N]   2 shards x 2 replicas, ZooKeeper
    python -m tests.cluster LAB --suites                      the tests that need TRACEREEL_TEST_CLUSTER
    python -m tests.cluster server [--rounds 40]              one server

LAB is a folder with `lab.py`, which makes the cluster (tests/support/lab_cluster.py). Collectors of one
group store through different nodes; an oracle sends events, spans and metric points through any of them,
some requests again after their acknowledgement. In the middle the schema is upgraded, then one collector
after another, to a copy of the package with one migration more. At the end each acknowledged record is
stored exactly once, nothing else is, and the rollups agree with the rows. A seed repeats the same sequence
of faults (not the same timing).
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import tracereel_collector
from tests.collector.store.conftest import LATER_SCHEMA
from tests.support.clickhouse_cluster import apply_schema, kill_apply_schema
from tests.support.clickhouse_server import ClickHouseServer
from tests.support.collector import CollectorProcess, free_port, http
from tests.support.collector_group import SECRET
from tests.support.engine_store import store_at
from tests.support.lab_cluster import LabCluster
from tests.support.oracle_process import Oracle
from tests.support.waiting import wait_until
from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store.clickhouse import StoreAddress

KINDS = ("events", "spans", "metrics")
COLLECTORS = {"a": 0, "b": 1, "c": 3}
"""Node that each stores through; no collector stores through the first replica of the second shard."""
DATABASE = "oracle"
SLOW_SECONDS = 900
"""Limit of each wait: other jobs may keep the machine busy."""
IDS = {
    "events": "SELECT event_id, count() FROM agent_events GROUP BY event_id",
    "spans": "SELECT SpanId, count() FROM otel_spans GROUP BY SpanId",
    "metrics": "SELECT MetricName, count() FROM otel_metrics_gauge GROUP BY MetricName",
}
ROLLUPS = {
    "events of runs": "SELECT sum(events) FROM trace_summaries",
    "spans of runs": "SELECT sum(spans) FROM trace_summaries",
    "events of the new rollup": "SELECT sum(events) FROM event_types"
    " WHERE event_type != 'custom.deleted'",  # it has no runs, so deletion leaves it
}


SUITES = (
    "tests/collector/store/test_on_cluster.py",
    "tests/collector/store/test_deletion_on_cluster.py",
    "tests/e2e/test_backup.py",
    "tests/e2e/test_migrate_store.py",
    "tests/e2e/test_same_answers.py",
)
FAULTS = ("collector", "collector", "node", "node", "collector_and_node")
OF_A_CLUSTER = ("shard", "keeper", "session", "table", "table", "deletion")


class Server:
    """One server in the place of a cluster."""

    addresses = ""
    aborted = 0

    def __init__(self, folder):
        self.nodes = [ClickHouseServer(folder)]
        self.nodes[0].start()

    def start(self, part):
        part.start()

    def close(self):
        self.nodes[0].kill()


class World:
    """Store, collectors, and the faults that can be injected."""

    def __init__(self, lab, folder, faults=()):
        self.is_cluster = lab != "server"
        self.faults = faults
        self.store = LabCluster(Path(lab), folder) if self.is_cluster else Server(folder / "server")
        self.addresses = [f"{node.dsn}/{DATABASE}" for node in self.store.nodes]
        self.done = Counter()
        apply_schema(self.addresses[0], self.store.addresses)
        ports = {name: free_port() for name in COLLECTORS}
        peers = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in ports.items())
        self.collectors = [
            CollectorProcess(
                folder / name,
                port=port,
                start_seconds=300,  # eight processes share the cores with it
                arguments=(
                    *("--workers", "1", "--local-admin"),
                    *("--store", self.addresses[COLLECTORS[name] % len(self.addresses)]),
                ),
                environ={
                    "TRACEREEL_PEERS": peers,
                    "TRACEREEL_NAME": name,
                    "TRACEREEL_GROUP_SECRET": SECRET,
                },
            )
            for name, port in ports.items()
        ]
        for each in self.collectors:
            each.start()

    def upgrade(self, folder, rnd):
        """Install a version with one migration more: the schema first, then each collector.

        The change of the schema is killed once, after a random one of its lines.
        """
        shutil.copytree(Path(tracereel_collector.__file__).parent, folder / "tracereel_collector")
        schema = folder / "tracereel_collector" / "store" / "schema"
        (schema / "9000_event_types.sql").write_text(LATER_SCHEMA)
        path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        environ = {"PYTHONPATH": os.pathsep.join(path)}
        if self.is_cluster:
            lines = rnd.randint(1, 3 * len(self.store.nodes) - 1)
            kill_apply_schema(self.addresses[0], self.store.addresses, environ=environ, lines=lines)
            self.done[f"upgrade killed after {lines} steps"] += 1
        # All nodes must answer; one may abort by itself meanwhile (tests/support/lab_cluster.py).
        apply_schema(self.addresses[0], self.store.addresses, environ=environ, seconds=SLOW_SECONDS)
        for each in self.collectors:
            each.stop()
            each.environ |= environ
            each.start()
        self.done["upgrade"] += 1

    @property
    def urls(self):
        return ",".join(each.url for each in self.collectors)

    def close(self):
        for each in self.collectors:
            if each.process is not None and each.process.poll() is None:
                each.kill()
        self.store.close()

    def hurt(self, rnd):
        """Inject one random fault and remove it again."""
        name = rnd.choice(self.faults or FAULTS + (OF_A_CLUSTER if self.is_cluster else ()))
        self.done[name] += 1
        getattr(self, f"_{name}")(rnd)

    def _collector(self, rnd):
        victim = rnd.choice(self.collectors)
        victim.kill()
        victim.start()

    def _node(self, rnd):
        self._killed([rnd.choice(self.store.nodes)], rnd)

    def _collector_and_node(self, rnd):
        victim = rnd.choice(self.collectors)
        victim.kill()
        self._killed([rnd.choice(self.store.nodes)], rnd)
        victim.start()

    def _shard(self, rnd):
        self._killed(self.store.shard(rnd.randrange(2)), rnd)

    def _keeper(self, rnd):
        self._killed([self.store.keeper], rnd)

    def _session(self, rnd):
        """End a node's session with ZooKeeper, in the middle of whatever it does."""
        self.ask(rnd.choice(self.store.nodes), "SYSTEM RECONNECT ZOOKEEPER")

    def _killed(self, parts, rnd):
        for part in parts:
            part.kill()
        time.sleep(rnd.uniform(0.0, 3.0))
        for part in parts:
            self.store.start(part)

    def _table(self, rnd):
        """One table of one shard refuses what is written to it, on both replicas."""
        name = rnd.choice(("agent_events", "trace_summaries", "otel_spans", "otel_metrics_gauge"))
        nodes = self.store.shard(rnd.randrange(2))
        for node in nodes:
            self.ask(node, f"DETACH TABLE {name}_local SYNC")
        time.sleep(rnd.uniform(0.5, 3.0))
        for node in nodes:
            self.ask(node, f"ATTACH TABLE {name}_local")

    def _deletion(self, rnd):
        """Delete a run while a replica is killed: the answers say so until it has deleted it, too.

        The replica is the one that reads and changes prefer, and no collector stores through it: a member
        of the group that cannot deliver what waits would refuse the deletion.
        """
        run = f"deleted-{self.done['deletion']}"
        events = [
            {
                "event_id": f"{run}-{number}",
                "event_type": "custom.deleted",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": run,
            }
            for number in range(20)
        ]
        (victim,) = (
            node for n, node in enumerate(self.store.nodes) if n not in COLLECTORS.values()
        )
        asked = rnd.choice(self.collectors)
        wait_until(
            lambda: asked.post_events(events).json().get("status") in ("stored", "duplicate"),
            timeout=SLOW_SECONDS,
            message="the events to delete are stored",
        )
        victim.kill()
        try:
            answer = self._deleted_within(asked, run, 240)
            if answer is None:
                # The other replica waits for rows that only the killed one has.
                self.done["deletion that waited for the replica"] += 1
            else:
                assert answer["status"] == "deleting", answer
                # The other replica may lack what only the killed one has.
                assert f"127.0.0.1:{victim.port}" in answer["waiting_for"], answer
        finally:
            self.store.start(victim)
        wait_until(
            lambda: (self._deleted(asked, run) or {}).get("status") == "deleted",
            timeout=SLOW_SECONDS,
            message="the replica that is back deletes the rows",
        )
        for node in self.store.nodes:
            store = store_at(StoreAddress.parse(node.dsn), DATABASE)
            left = "SELECT count() FROM agent_events_local WHERE trace_id = {run:String}"
            assert store.rows(left, run=run) == [("0",)], node.name
            store.close()

    def _deleted_within(self, collector, run, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if answer := self._deleted(collector, run):
                return answer
            time.sleep(1)
        return None

    @staticmethod
    def _deleted(collector, run):
        """Return the answer to a deletion; None if it must be repeated."""
        try:
            answer = http("DELETE", f"{collector.url}/v1/traces/{run}", timeout=120)
        except TimeoutError:
            return None
        assert answer.status in (200, 429, 503), answer
        return answer.json() if answer.status == 200 else None

    def ask(self, node, statement):
        """Run a statement on one node, again until it is accepted."""
        store = store_at(StoreAddress.parse(node.dsn), DATABASE)
        try:
            wait_until(lambda: _accepted(store, statement), timeout=SLOW_SECONDS, message=statement)
        finally:
            store.close()

    def rows(self, statement):
        store = store_at(StoreAddress.parse(self.addresses[-1]), DATABASE)
        try:
            return store.rows(statement)
        finally:
            store.close()

    def settle(self):
        """Wait until nothing waits in a collector and no replica lags."""
        for each in self.collectors:
            for kind in KINDS:
                wait_until(
                    lambda each=each, kind=kind: (
                        each.metric("tracereel_records_pending", kind=kind) == 0
                    ),
                    timeout=SLOW_SECONDS,
                    message=f"{kind} are delivered",
                )
        for node in self.store.nodes if self.is_cluster else ():
            for (table,) in self.rows(
                "SELECT name FROM system.tables WHERE database = currentDatabase()"
                " AND engine LIKE 'Replicated%'"
            ):
                self.ask(node, f"SYSTEM SYNC REPLICA {table}")


def _accepted(store, statement):
    try:
        store.command(statement)
    except StoreUnavailableError:
        return False
    return True


def run(lab, folder, *, seed, rounds, faults=(), minutes=0.0):
    """Inject faults, none after so many minutes, then return a table of checked figures."""
    rnd = random.Random(seed)
    world = World(lab, folder, faults)
    oracle = None
    try:
        oracle = Oracle(world.urls, f"cluster{seed}", seed, kinds=("otlp", "again"))
        begun, done = time.monotonic(), 0
        for number in range(rounds):
            if minutes and time.monotonic() - begun > 60 * minutes:
                break
            target = oracle.count + rnd.randint(50, 800)
            wait_until(lambda target=target: oracle.count >= target, timeout=SLOW_SECONDS)
            if number == rounds // 2:
                world.upgrade(folder / "next", rnd)
            else:
                world.hurt(rnd)
            done += 1
            print(f"round {done}: {oracle.count} acknowledged", flush=True)
        status = oracle.finish()
        world.settle()
        table = {"seed": seed, "rounds": done, "oracle ended with": status}
        return {**table, **counted(world, oracle.acknowledged)}
    finally:
        if oracle is not None:
            oracle.close()
        world.close()


def counted(world, acknowledged):
    """Return acknowledged, missing, doubled and unknown records, and the sums of the rollups."""
    sent = {kind: Counter() for kind in KINDS}
    for trace, ids in acknowledged.items():
        kind = trace.partition(":")[0] if ":" in trace else "events"
        sent[kind].update(ids)
    table = {"faults": dict(world.done), "nodes that aborted by themselves": world.store.aborted}
    for kind in KINDS:
        stored = Counter({each: int(times) for each, times in world.rows(IDS[kind])})
        table[f"{kind} acknowledged"] = sent[kind].total()
        table[f"{kind} missing"] = len(sent[kind] - stored)
        table[f"{kind} doubled"] = sum(times > 1 for times in stored.values())
        table[f"{kind} never acknowledged"] = len(set(stored) - set(sent[kind]))
    for name, statement in ROLLUPS.items():
        table[name] = int(world.rows(statement)[0][0])
    return table


def holds(table):
    """Return whether nothing was lost or doubled, and the rollups agree."""
    return (
        table["oracle ended with"] == 0
        and all(
            table[f"{kind} {wrong}"] == 0
            for kind in KINDS
            for wrong in ("missing", "doubled", "never acknowledged")
        )
        and table["events of runs"] == table["events acknowledged"] > 0
        and table["events of the new rollup"] == table["events acknowledged"]
        and table["spans of runs"] == table["spans acknowledged"] > 0
    )


def suites(lab, folder):
    """Run the test suites that need a cluster; return the exit status."""
    cluster = LabCluster(Path(lab), folder)
    try:
        environ = {**os.environ, **cluster.environ}
        command = [sys.executable, "-m", "pytest", "-q", "-o", "timeout=1200", *SUITES]
        return subprocess.run(command, env=environ, check=False).returncode
    finally:
        cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lab", help="a folder with lab.py, or 'server'")
    parser.add_argument("--suites", action="store_true", help="run test suites instead of rounds")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=0.0, help="no fault after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--faults", default="", help="only these, separated by commas")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracereel-cluster-") as folder:
        if args.suites:
            return suites(args.lab, Path(folder))
        faults = tuple(filter(None, args.faults.split(",")))
        table = run(
            args.lab,
            Path(folder),
            seed=args.seed,
            rounds=args.rounds,
            faults=faults,
            minutes=args.minutes,
        )
    for figure, value in table.items():
        print(f"{figure:>28}  {value}")
    print("conserved" if holds(table) else "BROKEN")
    return 0 if holds(table) else 1


if __name__ == "__main__":
    sys.exit(main())
