"""Measure acknowledged and stored records per second with the embedded store.

    python bench/ingest.py [--kind events] [--workers 1] [--seconds 15] [--runs 3] [--senders 4]
                           [--batch 100] [--rate 0]

The collector, its engine and the load generator share the cores of this machine. A record is stored
when the collector has counted it after the insert; the time runs until the last acknowledged record is
stored. The second table is the CPU time of each stage per record. The largest stage is the next to
optimise; cores / sum of all stages is the rate that this machine could reach without other load.
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
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.collector import CollectorProcess

TICKS = os.sysconf("SC_CLK_TCK")
STAGES = {"door": "door", "commit": "commit", "deliver": "deliver", "engine": "engine"}


def processes_of(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and its descendants."""
    return [root, *root.children(recursive=True)]


def cpu_by_stage(root: psutil.Process) -> Counter[str]:
    """Return CPU seconds so far by thread name."""
    used: Counter[str] = Counter()
    for process in processes_of(root):
        is_engine = "tracereel_collector.engine" in process.cmdline()
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # the thread ended meanwhile
            stage = "engine" if is_engine else name.partition("-")[0]
            seconds = (int(fields[11]) + int(fields[12])) / TICKS
            used[stage if stage in STAGES else "other"] += seconds
    return used


class PeakMemory(threading.Thread):
    """Peak memory of the engine, and of collector and engine together."""

    def __init__(self, root: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._root = root
        self.engine = self.all = 0
        self._stop_it = threading.Event()

    def run(self) -> None:
        """Sample ten times per second."""
        while not self._stop_it.wait(0.1):
            total = 0
            for process in processes_of(self._root):
                size = process.memory_info().rss
                total += size
                if "tracereel_collector.engine" in process.cmdline():
                    self.engine = max(self.engine, size)
            self.all = max(self.all, total)

    def stop(self) -> None:
        """Stop sampling."""
        self._stop_it.set()
        self.join()


def one_run(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Measure a new collector under load."""
    collector = CollectorProcess(folder, arguments=("--workers", str(args.workers))).start()
    root = psutil.Process(collector.process.pid)
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
    args = parser.parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} cores, {args.kind}, workers {args.workers or 'default'},"
        f" {args.senders} senders, batches of {args.batch}"
    )
    runs = []
    for _ in range(args.runs):
        with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
            runs.append(one_run(args, Path(folder)))
    table("throughput", RATES, runs)
    table("CPU µs a record, by stage", COSTS, runs)


if __name__ == "__main__":
    main()
