"""Measure the cost of the live tail: acknowledgement times and delay by readers.

    python bench/tail.py [--rate 1000] [--seconds 15] [--readers 0,1,3,10] [--workers 1]

Readers are threads of this process and receive all events of the tenant. `late` is the time from the
arrival of an event at the collector to its arrival at a reader, for the last event of each chunk.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.collector import CollectorProcess

TICKS = os.sysconf("SC_CLK_TCK")


class Watcher(threading.Thread):
    """Reads a stream to its end, counts events and records their delay."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)
        self._connection.request("GET", "/v1/tail")
        self._response = self._connection.getresponse()
        self.events = 0
        self.gaps = 0
        self.late: list[float] = []

    def run(self) -> None:
        """Read the stream."""
        rest = b""
        while chunk := self._response.read1(1 << 20):
            now = time.time()
            *frames, rest = (rest + chunk).split(b"\n\n")
            self.gaps += sum(b"event: gap" in frame for frame in frames)
            events = [frame for frame in frames if b"event: event" in frame]
            self.events += len(events)
            if events:
                data = json.loads(events[-1].partition(b"data: ")[2])
                arrived = datetime.fromisoformat(data["details"]["ingested_at"])
                self.late.append(now - arrived.timestamp())


def cpu_of(pid: int, thread: str) -> float:
    """Return CPU seconds of the threads with a name, in a process and its descendants."""
    used = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == thread:
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
                used += (int(fields[11]) + int(fields[12])) / TICKS
    return used


def one_run(args: argparse.Namespace, readers: int, folder: Path) -> dict[str, float]:
    """Measure a new collector with readers under load."""
    collector = CollectorProcess(folder, arguments=("--workers", str(args.workers))).start()
    watchers = [Watcher(collector.url) for _ in range(readers)]
    for watcher in watchers:
        watcher.start()
    before = cpu_of(collector.process.pid, "door")
    load = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).parent / "load.py"), collector.url, "events"),
            *(str(args.seconds), "4", str(args.batch), str(args.rate)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    sent = json.loads(load.stdout)
    time.sleep(1)
    tail, door = (cpu_of(collector.process.pid, name) for name in ("live-tail", "door"))
    lagged = collector.metric("tracereel_tail_ended_total", reason="lagged")
    collector.stop()
    late = sorted(each for watcher in watchers for each in watcher.late) or [0.0]
    each = 1e6 / sent["acknowledged"]
    return {
        "readers": readers,
        "acked/s": sent["acknowledged"] / sent["seconds"],
        "ack p50 ms": sent["p50_ms"],
        "ack p99 ms": sent["p99_ms"],
        "door µs": (door - before) * each,
        "tail µs": tail * each,
        "late p50 s": late[len(late) // 2],
        "late max s": late[-1],
        "shown %": 100
        * sum(watcher.events for watcher in watchers)
        / max(1, readers * sent["acknowledged"]),
        "gaps": sum(watcher.gaps for watcher in watchers),
        "lagged": lagged,
    }


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1000, help="events a second; 0: all it can")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--readers", default="0,1,3,10")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    for number, readers in enumerate(args.readers.split(",")):
        with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
            run = one_run(args, int(readers), Path(folder))
        if not number:
            print(" ".join(f"{name:>10}" for name in run))
        print(" ".join(f"{value:10,.2f}" for value in run.values()), flush=True)


if __name__ == "__main__":
    main()
