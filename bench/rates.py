"""Measure CPU and memory of collector and engine at low, steady rates, with and without a reader.

    python bench/rates.py [--rates 0,20,100,1000] [--seconds 30] [--readers 0,1]

A reader asks for the newest 50 runs once a second, as the page does while events come.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.ingest import cpu_by_stage, is_engine, processes_of
from tests.support.collector import CollectorProcess, http
from tests.support.waiting import wait_until
from tracereel_collector.config import Settings

DEFAULTS = Settings()
PAUSES = {
    "TRACEREEL_LINGER_SECONDS": str(DEFAULTS.linger_seconds),
    "TRACEREEL_UNREAD_SECONDS": str(DEFAULTS.unread_seconds),
}
"""The package's own, which test collectors shorten."""


class Reader(threading.Thread):
    """Asks for the newest runs once a second."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.stopped = threading.Event()

    def run(self) -> None:
        """Ask until stopped."""
        while not self.stopped.wait(1.0):
            http("GET", f"{self._url}/v1/traces")


def measure(rate: int, seconds: float, readers: int) -> dict[str, float]:
    """Return the CPU in percent of a core, the inserts and the memory at one rate."""
    with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
        collector = CollectorProcess(Path(folder), environ=PAUSES).start()
        try:
            wait_until(
                lambda: http("GET", f"{collector.url}/readyz/query").status == 200, timeout=120
            )
            threads = [Reader(collector.url) for _ in range(readers)]
            for thread in threads:
                thread.start()
            if rate:
                load(collector.url, rate, 5.0)  # settle: caches, first parts
            else:
                time.sleep(5.0)
            root = [psutil.Process(collector.process.pid)]
            inserts = inserts_of(collector)
            before, started = cpu_by_stage(root), time.perf_counter()
            if rate:
                load(collector.url, rate, seconds)
            else:
                time.sleep(seconds)
            used, took = cpu_by_stage(root) - before, time.perf_counter() - started
            inserts = inserts_of(collector) - inserts
            sizes = {True: 0, False: 0}
            for process in processes_of(root):
                sizes[is_engine(process)] += process.memory_info().rss
            for thread in threads:
                thread.stopped.set()
            return {
                "engine": used["engine"] / took * 100,
                "collector": (used.total() - used["engine"]) / took * 100,
                "inserts": inserts / took,
                "engine_mib": sizes[True] / 2**20,
                "all_mib": sum(sizes.values()) / 2**20,
            }
        finally:
            collector.stop()


def inserts_of(collector: CollectorProcess) -> float:
    """Return how many batches of events the store has taken."""
    text = http("GET", f"{collector.url}/metrics").body.decode()
    name = 'tracereel_insert_seconds_count{kind="events"}'
    lines = (line for line in text.splitlines() if line.startswith(name))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def load(url: str, rate: int, seconds: float) -> None:
    """Send events at a rate, twenty requests a second at most."""
    batch = max(1, rate // 20)
    sent = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).parent / "load.py"), url, "events"),
            *(str(seconds), "1", str(batch), str(rate)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    if json.loads(sent.stdout)["refused"]:
        raise SystemExit(f"events were refused: {sent.stdout}")


def main() -> None:
    """Run the benchmark and print a line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="0,20,100,1000", help="events a second, with commas")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--readers", default="0,1", help="how many, with commas")
    args = parser.parse_args()
    print("events/s  readers  engine %  collector %  inserts/s  engine MiB  all MiB")
    for readers in map(int, args.readers.split(",")):
        for rate in map(int, args.rates.split(",")):
            found = measure(rate, args.seconds, readers)
            print(
                f"{rate:8,} {readers:8} {found['engine']:9.1f} {found['collector']:12.1f}"
                f" {found['inserts']:10.2f} {found['engine_mib']:11.0f} {found['all_mib']:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
