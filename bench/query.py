"""Measure the latency of common queries over one and ten million events.

    python bench/query.py [--events 1000000,10000000] [--requests 100] [--keep DIR] [--only WORD]

The events are generated in the engine and inserted into the ingest table, so that they pass the same
views as others: runs of 50 events with six agents each, 200,000 runs per day, up to now. One run has
30,000 events. The benchmark waits for merges. Times are those of sequential HTTP requests, and each
response is checked. CPU is that of the collector and its engine per request at the largest size; unlike
the times, it can be compared on a busy machine.
"""

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from urllib.parse import urlsplit

import clickhouse_connect
import psutil
from clickhouse_connect.driver.client import Client

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.collector import CollectorProcess
from tests.support.collector import http as ask

RUN_EVENTS = 50
RUNS_PER_INSERT = 2_000
MERGES_SECONDS = 900.0
SPACING = 86_400 * 10**9 // 200_000
"""Time between the starts of two runs: ten million events per day."""
LONG_RUN, LONG_RUN_EVENTS = "run-of-30000-events", 30_000
FILL = (Path(__file__).parent / "query_fill.sql").read_text()


@dataclass(frozen=True)
class Case:
    """Query with its path, a check of the response and the time limit."""

    name: str
    path: Callable[[random.Random, int], str]
    holds: Callable[[dict], bool]
    goal_ms: float
    may_grow: float = float("inf")
    """Largest growth factor of the p50 from the first size to the last."""


def run_id(number: int) -> str:
    """Return the id of a run, as generated in SQL."""
    return md5(f"run{number}".encode()).hexdigest()


def found(answer: dict) -> bool:
    """Return whether a list has entries."""
    return bool(answer["traces"])


CASES = (
    Case(
        "replay of a 50-event run",
        lambda rnd, runs: f"/v1/replay/{run_id(rnd.randrange(runs))}",
        lambda answer: answer["summary"]["total_events"] == RUN_EVENTS,
        25,
        may_grow=1.5,
    ),
    Case("newest 50 runs", lambda *_: "/v1/traces", lambda a: len(a["traces"]) == 50, 100),
    Case(
        "filtered search over a day",
        lambda rnd, _: (
            f"/v1/traces?from=24h&agent=agent_{rnd.randrange(6)}&status=failed"
            "&pipeline=booking&min_cost_usd=0.004"
        ),
        found,
        300,
    ),
    Case(
        "the dearest of a day",
        lambda *_: "/v1/traces?from=24h&sort=cost_usd",
        lambda a: len(a["traces"]) == 50,
        300,
    ),
    Case(
        "counts and histogram of a day",
        lambda *_: "/v1/traces?from=24h&limit=0&histogram=60&facets=status,agent,model,error",
        lambda a: a["histogram"]["total"] > 0 and len(a["facets"]["agent"]) == 6,
        1_000,
    ),
    Case("token search, rare word", lambda *_: "/v1/traces?q=zarzaparrilla", found, 500),
    Case(
        "token search, two common words",
        lambda rnd, _: f"/v1/traces?from=24h&q={rnd.choice(['luna', 'rana'])}+dina",
        found,
        500,
    ),
    Case(
        "agents, last hour",
        lambda *_: "/v1/agents?from=1h",
        lambda a: len(a["agents"]) == 6 and a["agents"][0]["executions"] > 0,
        50,
    ),
    Case(
        "one agent, last hour, with series",
        lambda rnd, _: f"/v1/agents/agent_{rnd.randrange(6)}?from=1h",
        lambda a: a["executions"] > 0,
        50,
    ),
    Case(
        "agents, last day", lambda *_: "/v1/agents?from=24h", lambda a: len(a["agents"]) == 6, 300
    ),
    Case(
        "sessions",
        lambda *_: "/v1/sessions?from=24h",
        lambda a: len(a["sessions"]) == 50,
        500,
    ),
    Case(
        "one session",
        lambda rnd, runs: f"/v1/sessions/ses_{rnd.randrange(runs // 4)}",
        lambda a: len(a["turns"]) == 4,
        200,
    ),
    Case(
        "30,000-event run: tree",
        lambda *_: f"/v1/traces/{LONG_RUN}",
        lambda a: a["summary"]["total_events"] == LONG_RUN_EVENTS,
        2_000,
    ),
    Case(
        "30,000-event run: in outline",
        lambda *_: f"/v1/traces/{LONG_RUN}?outline_above=2000",
        lambda a: len(a["outline"]["id"]) == a["summary"]["total_steps"],
        2_000,
    ),
    Case(
        "30,000-event run: replay, first page",
        lambda *_: f"/v1/replay/{LONG_RUN}?limit=100",
        lambda a: len(a["timeline"]) == 100,
        300,
    ),
    Case(
        "30,000-event run: in 8,000 bytes",
        lambda *_: f"/v1/traces/{LONG_RUN}?budget_bytes=8000",
        lambda a: 0 < len(a["steps"]) < 200,
        2_000,
    ),
    Case(
        "completeness of a 50-event run",
        lambda rnd, runs: f"/v1/traces/{run_id(rnd.randrange(runs))}/completeness",
        lambda a: a["events"] == RUN_EVENTS,
        100,
    ),
    Case(
        "comparison of two 50-event runs",
        lambda rnd, runs: (
            f"/v1/traces/{run_id(rnd.randrange(runs))}/diff/{run_id(rnd.randrange(runs))}"
        ),
        lambda a: a["counts"]["steps"] > 0,
        100,
    ),
)


class Filler:
    """Inserts runs into the store; the newest starts at the time of the fill."""

    def __init__(self, client: Client, runs_in_all: int) -> None:
        self._client = client
        self._runs_in_all = runs_in_all
        self._begin = time.time_ns() - runs_in_all * SPACING
        self.runs = 0

    def up_to(self, runs: int) -> None:
        """Insert runs from the newest to the oldest, so that queries near now find data."""
        started, first = time.perf_counter(), self.runs
        while self.runs < runs:
            count = min(RUNS_PER_INSERT, runs - self.runs)
            # Numbered backwards from the newest, so that a smaller store is the end of a larger one.
            self._insert(self.runs, count, begin=self._newest(), spacing=-SPACING)
            self.runs += count
            done = (self.runs - first) / (runs - first)
            rate = (self.runs - first) * RUN_EVENTS / (time.perf_counter() - started)
            bar = "#" * int(done * 40)
            print(
                f"\r[{bar:<40}] {self.runs * RUN_EVENTS:,} events, {rate:,.0f}/s ",
                end="",
                file=sys.stderr,
                flush=True,
            )
        print(file=sys.stderr)

    def long_run(self) -> None:
        """Insert a run of 30,000 events."""
        bodies = LONG_RUN_EVENTS // RUN_EVENTS
        begin = self._newest() - 3600 * 10**9
        self._insert(10**9, bodies, begin=begin, spacing=2 * 10**9, run=LONG_RUN)

    def _newest(self) -> int:
        return self._begin + self._runs_in_all * SPACING

    def _insert(self, first: int, count: int, *, begin: int, spacing: int, run: str = "") -> None:
        self._client.command(
            FILL,
            parameters={
                "first_number": 10**12 + first * RUN_EVENTS,
                "first_run": first,
                "zero_run": 0 if not run else first,
                "runs": count,
                "begin": begin,
                "spacing": spacing,
                "one_run": run,
            },
            settings={"max_threads": 1, "max_insert_threads": 1, "max_execution_time": 300},
        )


@dataclass(frozen=True)
class Times:
    """Durations of requests in milliseconds."""

    p50: float
    p99: float
    cpu: float
    """CPU time of the collector and its engine per request."""


def cpu_seconds(collector: CollectorProcess) -> float:
    """Return the CPU time of the collector and its children."""
    serve = psutil.Process(collector.process.pid)
    used = [each.cpu_times() for each in (serve, *serve.children(recursive=True))]
    return sum(each.user + each.system for each in used)


def wait_for_merges(client: Client) -> None:
    """Wait until the engine has no merges for five seconds, at most 15 minutes."""
    deadline, quiet = time.monotonic() + MERGES_SECONDS, 0
    while quiet < 5 and time.monotonic() < deadline:
        merging = int(client.command("SELECT count() FROM system.merges"))
        quiet = 0 if merging else quiet + 1
        print(f"\r{merging} merges under way ", end="", file=sys.stderr, flush=True)
        time.sleep(1)
    parts = client.command(
        "SELECT count() FROM system.parts WHERE active AND table = 'agent_events'"
    )
    print(f"\rmerged: {parts} parts of events   ", file=sys.stderr)


def measure(collector: CollectorProcess, case: Case, runs: int, requests: int) -> Times | str:
    """Return the durations of requests, or the first wrong response."""
    url = urlsplit(collector.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    rnd = random.Random(5)
    times = []
    used = 0.0
    for number in range(requests + 5):
        if number == 5:
            used = cpu_seconds(collector)
        path = case.path(rnd, runs)
        started = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        took = (time.perf_counter() - started) * 1e3
        if response.status != 200 or not case.holds(json.loads(body)):
            return f"{response.status}: {body[:120]!r}"
        if number >= 5:
            times.append(took)
    used = (cpu_seconds(collector) - used) / requests * 1e3
    times.sort()
    return Times(times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)], used)


def engine_client(collector: CollectorProcess) -> Client:
    """Return a client of the collector's engine."""
    store = ask("GET", f"{collector.url}/readyz").json()["store"]
    host, port = store["address"].split(":")
    return clickhouse_connect.get_client(
        host=host,
        port=int(port),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
        send_receive_timeout=600,
    )


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", default="1000000,10000000", help="how many, with commas")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="a folder for the data, to be looked at later")
    parser.add_argument("--only", default="", help="questions whose name has this word")
    args = parser.parse_args()
    sizes = [int(size) for size in args.events.split(",")]
    cases = [case for case in CASES if args.only in case.name]
    with tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder:
        collector = CollectorProcess(args.keep or Path(folder)).start()
        try:
            client = engine_client(collector)
            filler = Filler(client, max(sizes) // RUN_EVENTS)
            results: dict[str, list[Times | str]] = {case.name: [] for case in cases}
            for size in sizes:
                if size == sizes[0]:
                    filler.long_run()
                filler.up_to(size // RUN_EVENTS)
                wait_for_merges(client)
                for case in cases:
                    print(f"\r{case.name:<40}", end="", file=sys.stderr, flush=True)
                    asked = min(args.requests, 20) if "30,000" in case.name else args.requests
                    results[case.name].append(measure(collector, case, filler.runs, asked))
                print(file=sys.stderr)
            report(results, sizes)
            client.close()
        finally:
            collector.stop()


def report(results: dict[str, list[Times | str]], sizes: list[int]) -> None:
    """Print a line for each query: p50 / p99 at each size, growth, goal and CPU."""
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}, p50 / p99 in ms")
    heads = "".join(f"{size:>18,}" for size in sizes)
    print(f"{'':38}{heads}{'growth':>8}{'goal p50':>10}{'CPU':>7}")
    for case in CASES:
        cells, p50s = "", []
        for result in results.get(case.name, ()):
            if isinstance(result, str):
                print(f"{case.name:38} {result}")
                break
            p50s.append(result.p50)
            cells += f"{result.p50:>9.1f} /{result.p99:>7.1f}"
            cpu = result.cpu
        else:
            if not p50s:
                continue
            growth = p50s[-1] / p50s[0]
            met = p50s[-1] <= case.goal_ms and growth < case.may_grow
            goal = f"{case.goal_ms:,.0f}"
            print(
                f"{case.name:38}{cells}{growth:>8.2f}{goal:>10}{cpu:>7.0f}{'' if met else '  missed'}"
            )


if __name__ == "__main__":
    main()
