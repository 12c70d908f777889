"""Chaos test: kill, pause, cut off and refuse components at random under load, then count events.

    python -m tests.chaos [--minutes 5] [--seed N] [--only storm,power]

In `storm`, `kills` and `outage` a collector with two workers stores through a misbehaving proxy into
an engine; an oracle sends events and records acknowledgements. At the end every acknowledged event is
in the table exactly once, nothing else is, the counters balance, and a new event is still accepted.
`power`, `disks`, `fuzz` and `restart` are the long forms of tests without a running collector. A seed
repeats the same sequence of faults (not the same timing).
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from tests import long_forms
from tests.support.collector import CollectorProcess
from tests.support.collector_group import CollectorGroup, GroupOracles
from tests.support.conservation import conserved, conserved_group
from tests.support.engine_store import store_on
from tests.support.flaky_proxy import FAULTS as REFUSALS
from tests.support.flaky_proxy import FlakyProxy
from tests.support.oracle_process import Oracle, free_port
from tests.support.waiting import wait_until
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor


class World:
    """Stack of processes under test, and the faults that can be injected into it."""

    def __init__(self, folder):
        self.engine = Supervisor(EngineSettings(store_dir=folder / "store"))
        self.engine.start()
        self.proxy = FlakyProxy(self.engine.host, self.engine.port)
        secret = quote(self.engine.secret)
        store = f"clickhouse://tracereel:{secret}@127.0.0.1:{self.proxy.port}/tracereel"
        self.collector = CollectorProcess(
            folder / "data", port=free_port(), arguments=("--workers", "2", "--store", store)
        ).start()
        self.done = Counter()

    def close(self):
        with suppress(Exception):
            self.collector.stop()
        self.proxy.close()
        self.engine.stop()

    def hurt(self, rnd, faults):
        """Inject one random fault."""
        name = rnd.choice(faults)
        self.done[name] += 1
        getattr(self, f"_{name}")(rnd)

    def _worker(self, rnd):
        with suppress(psutil.Error, IndexError):
            rnd.choice(self._workers()).kill()

    def _pause(self, rnd):
        with suppress(psutil.Error, IndexError):
            worker = rnd.choice(self._workers())
            worker.suspend()
            time.sleep(rnd.uniform(0.1, 1.0))
            worker.resume()

    def _supervisor(self, _rnd):
        self.collector.kill()
        self.collector.start()

    def _engine(self, _rnd):
        with suppress(psutil.Error):
            if self.engine.pid is not None:
                psutil.Process(self.engine.pid).send_signal(signal.SIGKILL)

    def _away(self, rnd):
        self.proxy.away = True
        time.sleep(rnd.uniform(0.5, 3.0))
        self.proxy.away = False

    def _outage(self, _rnd):
        """Cut the store off for the rest of the scenario."""
        self.proxy.away = True
        time.sleep(1.0)

    def _proxy(self, rnd):
        fault = rnd.choice(REFUSALS)
        self.proxy.fail(fault, times=rnd.randint(1, 4))

    def _workers(self):
        children = psutil.Process(self.collector.process.pid).children()
        return [
            each for each in children if "tracereel_collector.processes.worker" in each.cmdline()
        ]

    def rows(self, statement):
        """Query the engine directly, bypassing the proxy."""
        store = store_on(self.engine)
        try:
            return store.rows(statement)
        finally:
            store.close()


STORM = ("worker", "worker", "pause", "supervisor", "engine", "away", *["proxy"] * 4)
KILLS = ("worker", "supervisor", "engine")
OUTAGE = ("outage",)


def run(folder, *, seed, until, pause=(0.2, 2.0), faults=STORM):
    """Inject faults until the deadline, then return a table of checked figures."""
    rnd = random.Random(seed)
    world = World(folder)
    try:
        oracle = Oracle(world.collector.url, f"chaos{seed}", seed)
        while not until(world):
            time.sleep(rnd.uniform(*pause))
            world.hurt(rnd, faults)
        world.proxy.left, world.proxy.away = 0, False
        status = oracle.finish()
        wait_until(
            lambda: world.collector.metric("tracereel_records_pending", kind="events") == 0,
            timeout=600,
            message="everything is delivered",
        )
        counts = conserved(world.collector)
        stored = Counter(
            {
                event_id: int(times)
                for event_id, times in world.rows(
                    "SELECT event_id, count() FROM agent_events GROUP BY event_id"
                )
            }
        )
        acknowledged = Counter(each for ids in oracle.acknowledged.values() for each in ids)
        fresh = world.collector.post_events(
            [
                {
                    "event_id": "fresh",
                    "event_type": "custom.fresh",
                    "timestamp": "2026-01-23T10:00:00Z",
                    "trace_id": "fresh",
                }
            ]
        )
        return {
            "seed": seed,
            "oracle ended with": status,
            "faults": dict(world.done),
            "inserts": dict(Counter(world.proxy.seen)),
            "acknowledged": acknowledged.total(),
            "missing": len(acknowledged - stored),
            "doubled": sum(times > 1 for times in stored.values()),
            "never acknowledged": len(set(stored) - set(acknowledged)),
            **counts,
            "a fresh event": fresh.json().get("status"),
        }
    finally:
        world.close()


def holds(table):
    """Return whether nothing was lost or duplicated."""
    return (
        table["oracle ended with"] == table["missing"] == table["doubled"] == 0
        and table["never acknowledged"] == table["quarantined"] == table["rejected"] == 0
        and table["stored"] == table["acknowledged"] > 0
        and table["a fresh event"] == "stored"
    )


def under_load(faults, pause):
    """Chaos scenario with a running collector."""

    def part(folder, *, seed, seconds):
        deadline = time.monotonic() + seconds
        table = run(
            folder,
            seed=seed,
            until=lambda _: time.monotonic() > deadline,
            pause=pause,
            faults=faults,
        )
        assert holds(table), table
        return table

    return part


def group(folder, *, seed, seconds):
    """Kill members of a group under load; their senders resend through the others."""
    rnd = random.Random(seed)
    members = CollectorGroup(folder).start()
    try:
        oracles = GroupOracles(members, f"chaos{seed}", seed)
        deadline = time.monotonic() + seconds
        kills = 0
        while time.monotonic() < deadline:
            time.sleep(rnd.uniform(0.2, 2.0))
            killed = rnd.sample("abc", rnd.choice([1, 1, 2, 3]))
            for name in killed:
                members[name].kill()
            members.restart(killed)
            kills += len(killed)
        status = oracles.finish()
        members.settle(timeout=600)
        acknowledged, stored = oracles.acknowledged(), members.stored_events()
        table = {
            "seed": seed,
            "oracles ended with": status,
            "kills": kills,
            "acknowledged": acknowledged.total(),
            "missing": (acknowledged - stored).total(),
            "doubled": (stored - acknowledged).total(),
            **conserved_group(members),
        }
    finally:
        members.close()
    assert table["missing"] == table["doubled"] == status == 0, table
    return table


PARTS = {
    "storm": (0.3, under_load(STORM, (0.2, 2.0))),
    "kills": (0.2, under_load(KILLS, (0.05, 0.5))),
    "group": (0.1, group),
    "outage": (0.15, under_load(OUTAGE, (0.1, 0.2))),
    "power": (0.1, long_forms.power_cuts),
    "disks": (0.05, long_forms.disks),
    "fuzz": (0.1, long_forms.fuzz),
    "restart": (0.0, long_forms.restart),
}
"""Scenarios with their share of the time."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    args = parser.parse_args()
    broken = []
    for name in args.only.split(","):
        share, part = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="tracereel-chaos-") as folder:
            print(f"{name} (seed {args.seed})", flush=True)
            try:
                table = part(Path(folder), seed=args.seed, seconds=share * args.minutes * 60)
            except Exception as error:
                table = {"BROKEN": f"{type(error).__name__}: {error}", "because": error.__cause__}
                broken.append(name)
        for figure, value in table.items():
            print(f"{figure:>26}  {value}", flush=True)
    print(f"BROKEN: {', '.join(broken)}" if broken else "conserved")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
