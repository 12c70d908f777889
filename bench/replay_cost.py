"""What recording a tape costs on a tool call of one millisecond, and what it costs when it is off.

    python bench/replay_cost.py [--calls 2000] [--runs 5]

Each candidate runs in a process of its own; the tool spins for its millisecond, and all is measured in
CPU time of the calling thread, so that neighbours do not blur the figures. Events go to the spool.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

CANDIDATES = ("off", "all", "errors")
ALLOWED = 0.05


def candidate(record: str, calls: int) -> None:
    """Make the calls in this process and print the median of their durations."""
    import tracereel

    tracereel.configure(
        record=record,
        endpoint="http://127.0.0.1:9",
        spool_dir=tempfile.mkdtemp(),
        exit_timeout=0.0,
    )

    @tracereel.traced_tool("search", effect="read")
    def search(query: str, limit: int = 3) -> dict[str, object]:
        until = time.thread_time_ns() + 1_000_000
        while time.thread_time_ns() < until:
            pass
        return {"query": query, "hits": [{"id": n, "text": "a line of text"} for n in range(limit)]}

    @tracereel.traced_agent("bench")
    def agent() -> list[int]:
        times = []
        for number in range(calls):
            begun = time.thread_time_ns()
            search(f"question {number}")
            times.append(time.thread_time_ns() - begun)
        return times

    times = agent()
    print(json.dumps({"p50": statistics.median(times) / 1e3}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--candidate", choices=CANDIDATES)
    args = parser.parse_args()
    if args.candidate:
        candidate(args.candidate, args.calls)
        return 0
    found: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for _ in range(args.runs):
        for name in CANDIDATES:
            done = subprocess.run(
                [sys.executable, __file__, "--candidate", name, "--calls", str(args.calls)],
                capture_output=True,
                text=True,
                check=True,
            )
            found[name].append(json.loads(done.stdout)["p50"])
    base = min(found["off"])
    print(f"{'record':<10}{'µs per call':>14}{'more than off':>16}")
    for name in CANDIDATES:
        best = min(found[name])
        print(f"{name:<10}{best:>14.1f}{best / base - 1:>15.1%}")
    share = min(found["all"]) / base - 1
    print(f"recording costs {share:.1%} of a call of 1 ms (at most {ALLOWED:.0%} is wanted)")
    return 0 if share <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
