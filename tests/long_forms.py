"""Parts of `make chaos` without a running collector: power cuts, disks, fuzzing, restart.

Each takes a directory, a seed and a number of seconds, and returns a table of figures; it raises if a
check fails.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.support import disk, fuzzing, power
from tests.support.conservation import conserved_queue
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits

GIGABYTE = 1_000_000_000
BODY = 1 << 20
LIMITS = QueueLimits(commit_bytes=16 << 20, max_pending_bytes=1 << 40, retain_seconds=30)


def power_cuts(folder, *, seed, seconds):
    """T2: cut the power of a queue at random moments, as often as time allows."""
    rnd, deadline, cuts = random.Random(seed), time.monotonic() + seconds, 0
    if not disk.available:
        return {"power cuts": "none: SQLite's functions are not reachable in this Python"}
    (folder / "recorded").mkdir()
    log = power.record(folder / "recorded", rounds=12)
    while time.monotonic() < deadline or not cuts:
        cut = rnd.randint(0, len(log))
        try:
            power.check(log, cut, rnd, folder / "cut")
        except Exception as error:
            raise AssertionError(f"seed {seed}, the {cuts}th cut, at {cut}") from error
        cuts += 1
    return {"power cuts": cuts}


def fuzz(_folder, *, seed, seconds):
    """T13: a million almost valid bodies, or as many as time allows."""
    deadline = time.monotonic() + seconds
    done = fuzzing.run(
        seed,
        lambda number: number >= 1_000_000 or (number % 100 == 99 and time.monotonic() > deadline),
    )
    return {"fuzzed bodies": done.total(), "of them": dict(done)}


def disks(_folder, *, seed, seconds):
    """T3 and T5: fail every call below SQLite in turn; damage many files at random."""
    rounds = max(25, int(seconds * 3))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=0"),
            *("tests/collector/queue/test_damage.py", "tests/collector/queue/test_disk_errors.py"),
        ],
        env={**os.environ, "TRACEREEL_DAMAGE_ROUNDS": str(rounds), "TRACEREEL_DISK_STEP": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-4000:]}"
    return {"damaged files": rounds}


def restart(folder, *, seed, seconds):
    """T1: kill with a gigabyte in the queue; measure the restart and check the data."""
    del seed, seconds  # as long as it takes
    bodies = GIGABYTE // BODY
    made = subprocess.run(
        [sys.executable, "-m", "tests.long_forms", str(folder), str(bodies)], check=False
    )
    assert made.returncode == 137
    started = time.perf_counter()
    queue = DurableQueue(folder / "queue.sqlite", LIMITS)
    took = time.perf_counter() - started
    assert queue.pending_bytes >= bodies * BODY
    conserved_queue(queue, pending=bodies)
    batch = queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1 << 40)
    assert batch.records == 10
    queue.close()
    assert took < 10, f"{took:.1f} s"
    return {"restart with 1 GB waiting": f"{took:.2f} s"}


def fill(folder, bodies):
    """Put bodies into a queue and exit without cleanup."""
    queue = DurableQueue(folder / "queue.sqlite", LIMITS)
    for number in range(bodies):
        body = Body(
            kind=Kind.EVENTS,
            tenant="default",
            received_unix_nano=time.time_ns(),
            data=b"%d" % number + b" " * BODY,
            records=1,
        )
        queue.append(body).result(60)
    os._exit(137)


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]))
