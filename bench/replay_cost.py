"""What recording a tape costs on a tool call of one millisecond, and what it costs when it is off.

    python bench/replay_cost.py [--calls 4000] [--runs 5]

Calls that are recorded and calls that are not take turns, forty at a time, in one process: neighbours and
the clock of the processor touch both alike. The tool spins for its millisecond. Calls are measured in CPU
time of the calling thread; what the writing thread does beside it is in the CPU time of the process, which
is given too. Events go to the spool. `off` is a program that is configured without recording; `none`
compares calls with no tape, and shows what is noise.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

CANDIDATES = ("none", "all", "errors")
BLOCK = 40
WARM = 5
ALLOWED_US = 50.0


def candidate(record: str, calls: int) -> None:
    """Make the calls in this process and print how much more the recorded ones took."""
    import tracereel
    from tracereel import _recorder

    tracereel.configure(
        record="off" if record == "none" else record,
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

    def block(number: int) -> tuple[float, float]:
        times = []
        whole = time.process_time_ns()
        for index in range(BLOCK):
            begun = time.thread_time_ns()
            search(f"question {number} {index}")
            times.append(time.thread_time_ns() - begun)
        return statistics.median(times[WARM:]), (time.process_time_ns() - whole) / BLOCK

    @tracereel.traced_agent("bench")
    def agent() -> dict[bool, list[tuple[float, float]]]:
        recorder = _recorder.active()
        assert recorder is not None
        tape = recorder.tape
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for number in range(calls // BLOCK):
            recorded = bool(number % 2)
            recorder.tape = tape if recorded else None
            found[recorded].append(block(number))
        recorder.tape = tape
        return found

    found = agent()
    pairs = list(zip(found[False], found[True], strict=False))
    print(
        json.dumps(
            {
                "off": statistics.median(off[0] for off, _ in pairs) / 1e3,
                "more": [(on[0] - off[0]) / 1e3 for off, on in pairs],
                "process": [(on[1] - off[1]) / 1e3 for off, on in pairs],
            }
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--candidate", choices=CANDIDATES)
    args = parser.parse_args()
    if args.candidate:
        candidate(args.candidate, args.calls)
        return 0
    found: dict[str, list[dict[str, object]]] = {name: [] for name in CANDIDATES}
    for _ in range(args.runs):
        for name in CANDIDATES:
            done = subprocess.run(
                [sys.executable, __file__, "--candidate", name, "--calls", str(args.calls)],
                capture_output=True,
                text=True,
                check=True,
            )
            found[name].append(json.loads(done.stdout))
    print("CPU microseconds that a recorded call of 1 ms takes more than one that is not:")
    print(f"{'record':<10}{'not recorded':>14}{'more: median':>14}{'quartiles':>16}{'process':>10}")
    median = 0.0
    for name in CANDIDATES:
        more = sorted(value for run in found[name] for value in run["more"])  # type: ignore[attr-defined]
        process = [value for run in found[name] for value in run["process"]]  # type: ignore[attr-defined]
        off = statistics.median(run["off"] for run in found[name])  # type: ignore[type-var]
        low, middle, high = statistics.quantiles(more, n=4)
        median = middle if name == "all" else median
        between = f"{low:.0f} to {high:.0f}"
        print(
            f"{name:<10}{off:>14.0f}{middle:>14.1f}{between:>16}{statistics.median(process):>10.1f}"
        )
    print(
        f"recording costs {median / 10:.1f} % of 1 ms (at most {ALLOWED_US / 10:.0f} % is wanted)"
    )
    return 0 if median <= ALLOWED_US else 1


if __name__ == "__main__":
    sys.exit(main())
