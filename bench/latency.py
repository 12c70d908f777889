"""Measure the time from an event to its acknowledgement at several rates.

    python bench/latency.py [--seconds 20] [--rates 0,8,50,200,1200,max]

Each row is one traced program that sends to a real collector with the embedded store; both share
the cores of this machine. An agent call makes two events; rate 0 is a program at rest, `max` one
that never pauses. Every event is measured when the collector answers; `request` is the part of that
answer, which waits for the collector's disk. `switches` counts how often
the delivering thread went to sleep, CPU is that of the whole traced program, per second and per
event. The goal is 95 % within 100 ms (`event_latency_p95`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path

import tracereel
from tracereel._core import recorder
from tracereel._export.sender import EventsAccepted, EventsRefused, Sender
from tracereel._telemetry import delivery_slo

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.collector import CollectorProcess

GOAL_SECONDS = 0.1
EVENTS_PER_CALL = 2


class Answers:
    """Delays of all acknowledged events, in place of the sampled ones of the SDK."""

    def __init__(self) -> None:
        self._measure = delivery_slo.look_at
        self.delays: list[float] = []
        self.requests: list[float] = []
        self._post = Sender.post

    def post(self, sender: Sender, lines: list[bytes]) -> EventsAccepted | EventsRefused:
        """Send lines and measure the request."""
        began = time.perf_counter()
        try:
            return self._post(sender, lines)
        finally:
            self.requests.append(time.perf_counter() - began)

    def look_at(
        self, lines: Sequence[bytes], *, now_ns: int | None = None
    ) -> delivery_slo.Answered:
        """Measure every line, then as the SDK does."""
        now = time.time_ns() if now_ns is None else now_ns
        for line in lines:
            self.delays += [delay for delay, _ in self._measure([line], now_ns=now).delays]
        return self._measure(lines, now_ns=now)


@tracereel.traced_agent("parsing_agent", version="1.0.0")
def agent(prompt: str) -> dict[str, str]:
    """Do almost nothing."""
    return {"contact": "Dr. Pérez", "date": "mañana", "prompt": prompt}


def program(url: str, rate: float, seconds: float) -> None:
    """Call the agent at a fixed rate and print the measurements as JSON."""
    answers = Answers()
    recorder.delivery_slo.look_at = answers.look_at  # type: ignore[assignment, attr-defined]
    Sender.post = lambda sender, lines: answers.post(sender, lines)  # type: ignore[method-assign]
    tracereel.configure(endpoint=url)
    agent("opens the spool and the connection")
    tracereel.flush(10.0)
    answers.delays.clear()
    answers.requests.clear()
    switches = _switches()
    began, used, calls = time.perf_counter(), time.process_time(), 0
    while (now := time.perf_counter()) < began + seconds:
        due = began + (calls * EVENTS_PER_CALL / rate if rate else inf)
        if due > now:
            time.sleep(min(due, began + seconds) - now)
            continue
        agent("cita mañana 10am con Dr. Pérez en la clínica del centro")
        calls += 1
    took, used = time.perf_counter() - began, time.process_time() - used
    switches = _switches() - switches
    tracereel.flush(30.0)
    result = {"took": took, "cpu": used, "switches": switches, "events": calls * EVENTS_PER_CALL}
    print(json.dumps({**result, "requests": answers.requests, "delays": answers.delays}))


def _switches() -> int:
    """Return how often the delivering thread went to sleep."""
    for thread in threading.enumerate():
        if thread.name == "tracereel-shipper":
            for line in Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    return int(line.split()[1])
    raise AssertionError("no delivering thread")


def measured(url: str, rate: str, seconds: float, folder: str) -> dict[str, float]:
    """Run one program and return its row."""
    words = [sys.executable, __file__, "--program", url, "--rates", rate, "--seconds", str(seconds)]
    env = {**os.environ, "TRACEREEL_SPOOL_DIR": folder, "TRACEREEL_EVENT_LOGS": "off"}
    found = json.loads(subprocess.run(words, check=True, capture_output=True, env=env).stdout)
    delays, events = sorted(found["delays"]), found["events"]
    assert len(delays) == events, f"{len(delays)} of {events} events were acknowledged"
    row = {"events/s": events / found["took"]}
    if events:
        within = sum(delay <= GOAL_SECONDS for delay in delays)
        row["within 100 ms %"] = 100 * within / events
        for share in (50, 95, 99):
            row[f"p{share} ms"] = delays[(events - 1) * share // 100] * 1e3
        row["max ms"] = delays[-1] * 1e3
        requests = sorted(found["requests"])
        row["request p95 ms"] = requests[(len(requests) - 1) * 95 // 100] * 1e3
        row["requests/event"] = len(requests) / events
        row["switches/event"] = found["switches"] / events
        row["CPU µs/event"] = found["cpu"] / events * 1e6
    row["CPU %"] = 100 * found["cpu"] / found["took"]
    return row


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="0,8,50,200,1200,max", help="events a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--program", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        rate = inf if args.rates == "max" else float(args.rates)
        program(args.program, rate, args.seconds)
        return
    columns: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
        collector = CollectorProcess(Path(folder, "data")).start()
        for number, rate in enumerate(args.rates.split(",")):
            row = measured(collector.url, rate, args.seconds, str(Path(folder, str(number))))
            if len(row) > len(columns):
                columns = list(row)
                print(" ".join(f"{name:>15}" for name in columns))
            print(" ".join(f"{row[name]:15,.2f}" if name in row else " " * 15 for name in columns))
        collector.stop()


if __name__ == "__main__":
    main()
