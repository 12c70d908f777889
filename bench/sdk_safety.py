"""Measure the delay of a traced program if the collector is up, down, hanging or failing.

python bench/sdk_safety.py
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]

from tests.support.ingest_sink import Behaviour, IngestSink  # noqa: E402

CALLS = 2_000
ROUNDS = 3
PROGRAM = f"""
import os, time

def agent(number):
    return number

if not os.environ.get("BARE"):
    import tracereel
    agent = tracereel.traced_agent("a")(agent)

agent(0)
spent = []
for number in range({CALLS}):
    begun = time.perf_counter()
    agent(number)
    spent.append(time.perf_counter() - begun)
spent.sort()
print(spent[len(spent) // 2], spent[int(len(spent) * 0.99)], spent[-1], time.monotonic(), flush=True)
"""


def run(url: str | None) -> tuple[float, float, float, float]:
    """Return p50, p99 and maximum of the calls, and the seconds until exit.

    Without a URL, the program is not traced.
    """
    with tempfile.TemporaryDirectory() as spool:
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "sdk"),
            "TRACEREEL_SPOOL_DIR": spool,
            **({"BARE": "1"} if url is None else {"TRACEREEL_ENDPOINT": url}),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True
        )
        ended = time.monotonic()
    p50, p99, longest, last = map(float, done.stdout.split())
    return p50, p99, longest, ended - last


def main() -> None:
    """Print a line for each state of the collector, medians of three programs."""
    print(f"{CALLS} calls{'':14} p50 µs   p99 µs   max ms   exit s")
    with socket.socket() as bound, IngestSink() as sink:
        bound.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for name, url, behaviour in (
            ("not traced", None, Behaviour()),
            ("well", sink.url, Behaviour()),
            ("away", nobody, Behaviour()),
            ("says 500", sink.url, Behaviour(status=500)),
            ("hanging", sink.url, Behaviour(hang=True)),
        ):
            sink.behaviour = behaviour
            found = [run(url) for _ in range(ROUNDS)]
            p50, p99, longest, end = (statistics.median(each) for each in zip(*found, strict=True))
            print(f"{name:22} {p50 * 1e6:8.0f} {p99 * 1e6:8.0f} {longest * 1e3:8.1f} {end:8.2f}")


if __name__ == "__main__":
    main()
