"""Acknowledged and stored events per second of a real collector on the embedded store.

    python bench/ingest.py [--seconds 15] [--runs 3] [--senders 3] [--batch 100]

The collector, its engine and the load generator share this machine's cores. Stored means: counted
by a SELECT on the engine, and the time runs until the last acknowledged event is there.
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
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.collector import CollectorProcess


class PeakMemory(threading.Thread):
    """The most memory a process and its children had, and the CPU they used."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self.peak = {"serve": 0, "engine": 0}
        self._stop_it = threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self._stop_it.wait(0.1):
            self.peak["serve"] = max(self.peak["serve"], self._root.memory_info().rss)
            for child in self._root.children():
                self.peak["engine"] = max(self.peak["engine"], child.memory_info().rss)

    def stop(self) -> None:
        """Stop looking."""
        self._stop_it.set()
        self.join()


def cpu_seconds(pid: int) -> tuple[float, float]:
    """CPU of the collector and of its engine so far."""
    root = psutil.Process(pid)
    times = [each.cpu_times() for each in (root, *root.children())]
    own, *children = [each.user + each.system for each in times]
    return own, sum(children)


def one_run(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """One fresh collector under load."""
    collector = CollectorProcess(folder).start()
    memory = PeakMemory(collector.process.pid)
    memory.start()
    before = cpu_seconds(collector.process.pid)
    started = time.perf_counter()
    load = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).parent / "load.py"), collector.url),
            *(str(args.seconds), str(args.senders), str(args.batch)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    sent = json.loads(load.stdout)
    preparation = time.perf_counter() - started - sent["seconds"]
    while collector.metric("tracereel_records_stored_total", kind="events") < sent["acknowledged"]:
        time.sleep(0.02)
    total = time.perf_counter() - started - preparation
    after = cpu_seconds(collector.process.pid)
    memory.stop()
    lost = sent["acknowledged"] - collector.metric("tracereel_records_stored_total", kind="events")
    collector.stop()
    return {
        **sent,
        "acknowledged_per_s": sent["acknowledged"] / sent["seconds"],
        "stored_per_s": sent["acknowledged"] / total,
        "lost": lost,
        "serve_us": (after[0] - before[0]) / sent["acknowledged"] * 1e6,
        "engine_us": (after[1] - before[1]) / sent["acknowledged"] * 1e6,
        "serve_mib": memory.peak["serve"] / 2**20,
        "engine_mib": memory.peak["engine"] / 2**20,
    }


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--senders", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {args.senders} senders, batches of {args.batch}")
    columns = (
        ("acknowledged_per_s", "acked/s"),
        ("stored_per_s", "stored/s"),
        ("p50_ms", "ack p50 ms"),
        ("p99_ms", "ack p99 ms"),
        ("serve_us", "serve µs/ev"),
        ("engine_us", "engine µs/ev"),
        ("serve_mib", "serve MiB"),
        ("engine_mib", "engine MiB"),
        ("bytes_per_event", "bytes/event"),
        ("refused", "refused"),
        ("lost", "lost"),
    )
    print(" ".join(f"{title:>12}" for _, title in columns))
    runs = []
    for _ in range(args.runs):
        with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
            runs.append(one_run(args, Path(folder)))
        print(" ".join(f"{runs[-1][key]:12,.1f}" for key, _ in columns), flush=True)
    median = {key: statistics.median(run[key] for run in runs) for key, _ in columns}
    print(" ".join(f"{median[key]:12,.1f}" for key, _ in columns), " median")


if __name__ == "__main__":
    main()
