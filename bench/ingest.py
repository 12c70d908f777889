"""Measure acknowledged and stored records per second.

    python bench/ingest.py [--kind events] [--workers 1] [--seconds 15] [--runs 3] [--senders 4]
                           [--batch 100] [--rate 0] [--store embedded,server]

The collector, its engine and the load generator share the cores of this machine. A record is stored
when the collector has counted it after the insert; the time runs until the last acknowledged record is
stored. The second table is the CPU time of each stage per record. The largest stage is the next to
optimise; cores / sum of all stages is the rate that this machine could reach without other load.

`--store` names what is measured, in turns: `embedded`, `server` (the ClickHouse server of the tests, on
this machine), `lab:FOLDER` (the cluster of tests/support/lab_cluster.py, on this machine) or the address of
a server, whose CPU time and memory are not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.clickhouse_cluster import apply_schema
from tests.support.clickhouse_server import ClickHouseServer, new_database
from tests.support.collector import CollectorProcess, http
from tests.support.lab_cluster import LabCluster
from tests.support.waiting import wait_until

TICKS = os.sysconf("SC_CLK_TCK")
ENGINES = (
    "tracereel_collector.engine",
    "clickhouse_main.py",
    "lab.py node",
    "org.apache.zookeeper",
)
STAGES = {"door": "door", "commit": "commit", "deliver": "deliver", "engine": "engine"}


@contextmanager
def store_arguments(store: str, folder: Path) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """Return the collector's arguments for a store, and the processes that it does not start."""
    if store == "embedded":
        yield (), []
    elif store == "server":
        server = ClickHouseServer(folder / "server").start()
        try:
            yield ("--store", new_database(server.dsn)), [server.pid]
        finally:
            server.kill()
    elif store.startswith("lab:"):
        cluster = LabCluster(Path(store.removeprefix("lab:")), folder / "cluster")
        try:
            address = new_database(cluster.nodes[0].dsn)
            apply_schema(address, cluster.addresses)
            parts = [*cluster.nodes, cluster.keeper]
            yield ("--store", address), [part.process.pid for part in parts]
        finally:
            cluster.close()
    else:
        yield ("--store", new_database(store)), []


def processes_of(roots: list[psutil.Process]) -> list[psutil.Process]:
    """Return processes and their descendants."""
    return [each for root in roots for each in (root, *root.children(recursive=True))]


def is_engine(process: psutil.Process) -> bool:
    """Return whether a process is ClickHouse."""
    words = " ".join(process.cmdline())
    return any(each in words for each in ENGINES)


def cpu_by_stage(roots: list[psutil.Process]) -> Counter[str]:
    """Return CPU seconds so far by thread name."""
    used: Counter[str] = Counter()
    for process in processes_of(roots):
        is_store = is_engine(process)
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # the thread ended meanwhile
            stage = "engine" if is_store else name.partition("-")[0]
            seconds = (int(fields[11]) + int(fields[12])) / TICKS
            used[stage if stage in STAGES else "other"] += seconds
    return used


class PeakMemory(threading.Thread):
    """Peak memory of the engine, and of collector and engine together."""

    def __init__(self, roots: list[psutil.Process]) -> None:
        super().__init__(daemon=True)
        self._roots = roots
        self.engine = self.all = 0
        self._stop_it = threading.Event()

    def run(self) -> None:
        """Sample ten times per second."""
        while not self._stop_it.wait(0.1):
            total = 0
            for process in processes_of(self._roots):
                size = process.memory_info().rss
                total += size
                if is_engine(process):
                    self.engine = max(self.engine, size)
            self.all = max(self.all, total)

    def stop(self) -> None:
        """Stop sampling."""
        self._stop_it.set()
        self.join()


def one_run(args: argparse.Namespace, store: str, folder: Path) -> dict[str, float]:
    """Measure a new collector under load."""
    with store_arguments(store, folder) as (arguments, others):
        return under_load(args, folder, arguments, others)


def under_load(
    args: argparse.Namespace, folder: Path, arguments: tuple[str, ...], others: list[int]
) -> dict[str, float]:
    """Measure a new collector; `others` are processes of its store."""
    collector = CollectorProcess(
        folder / "data", arguments=("--workers", str(args.workers), *arguments)
    ).start()
    # Making the tables is not part of what is measured.
    wait_until(lambda: http("GET", f"{collector.url}/readyz/query").status == 200, timeout=120)
    root = [psutil.Process(pid) for pid in (collector.process.pid, *others)]
    memory = PeakMemory(root)
    memory.start()
    before = cpu_by_stage(root)
    started = time.perf_counter()
    load = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).parent / "load.py"), collector.url, args.kind),
            *(str(args.seconds), str(args.senders), str(args.batch), str(args.rate)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    sent = json.loads(load.stdout)
    preparation = time.perf_counter() - started - sent["seconds"]

    def stored() -> float:
        return collector.metric("tracereel_records_stored_total", kind=args.kind)

    while stored() < sent["acknowledged"]:
        time.sleep(0.02)
    total = time.perf_counter() - started - preparation
    used = cpu_by_stage(root) - before
    memory.stop()
    lost = sent["acknowledged"] - stored()
    collector.stop()
    each = 1e6 / sent["acknowledged"]
    costs = {f"{name}_us": used[name] * each for name in (*STAGES, "other")}
    costs["load_us"] = sent["cpu_seconds"] * each
    return {
        **sent,
        **costs,
        "sum_us": sum(costs.values()),
        "acknowledged_per_s": sent["acknowledged"] / sent["seconds"],
        "stored_per_s": sent["acknowledged"] / total,
        "possible_per_s": len(os.sched_getaffinity(0)) * 1e6 / sum(costs.values()),
        "lost": lost,
        "engine_mib": memory.engine / 2**20,
        "all_mib": memory.all / 2**20,
    }


RATES = (
    ("acknowledged_per_s", "acked/s"),
    ("stored_per_s", "stored/s"),
    ("p50_ms", "ack p50 ms"),
    ("p99_ms", "ack p99 ms"),
    ("engine_mib", "engine MiB"),
    ("all_mib", "all MiB"),
    ("bytes_each", "bytes each"),
    ("refused", "refused"),
    ("lost", "lost"),
)
COSTS = (
    *((f"{name}_us", name) for name in (*STAGES, "other", "load")),
    ("sum_us", "sum"),
    ("possible_per_s", "possible/s"),
)


def table(title: str, columns: tuple[tuple[str, str], ...], runs: list[dict[str, float]]) -> None:
    """Print a line per run and the medians."""
    print(title)
    print(" ".join(f"{name:>11}" for _, name in columns))
    for run in runs:
        print(" ".join(f"{run[key]:11,.1f}" for key, _ in columns))
    median = {key: statistics.median(run[key] for run in runs) for key, _ in columns}
    print(" ".join(f"{median[key]:11,.1f}" for key, _ in columns), " median", flush=True)


def main() -> None:
    """Run the benchmark and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=["events", "spans"], default="events")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0, help="records a second; 0: all it can")
    parser.add_argument("--store", default="embedded", help="stores, separated by commas")
    args = parser.parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} cores, {args.kind}, workers {args.workers or 'default'},"
        f" {args.senders} senders, batches of {args.batch}"
    )
    runs: dict[str, list[dict[str, float]]] = {store: [] for store in args.store.split(",")}
    for _ in range(args.runs):
        for store, measured in runs.items():
            with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
                measured.append(one_run(args, store, Path(folder)))
    for number, (store, measured) in enumerate(runs.items(), start=1):
        # An address contains a password.
        shown = f"address {number}" if "://" in store else store
        table(f"throughput, {shown}", RATES, measured)
        table(f"CPU µs a record, by stage, {shown}", COSTS, measured)


if __name__ == "__main__":
    main()
