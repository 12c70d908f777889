"""Measure disk space per record and the time of backup, restore and migration.

python bench/backup.py --records 300000
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.load import event_bodies, span_bodies
from tests.support.collector import CollectorProcess
from tracereel_collector.config import Settings
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.startup.data_dir import maintenance_store, reached_store

BATCH = 5_000


def fill(settings: Settings, kind: Kind, records: int) -> None:
    """Insert records into the store and print their size on disk."""
    bodies = (event_bodies if kind is Kind.EVENTS else span_bodies)(7, BATCH)
    with reached_store(settings) as reached:
        store = maintenance_store(reached.address)
        for number in range(1, records // BATCH + 1):
            body = QueuedBody(
                id=number,
                kind=kind,
                tenant="default",
                first_sequence_number=number * BATCH,
                records=BATCH,
                received_unix_nano=time.time_ns(),
                data=next(bodies),
            )
            store.insert(kind, [body], token=uuid.uuid4().hex)
        for (table,) in store.rows("SELECT DISTINCT table FROM system.parts WHERE active"):
            store.command(f"OPTIMIZE TABLE `{table}` FINAL")
        sizes = store.rows(
            "SELECT table, sum(bytes_on_disk) AS size FROM system.parts WHERE active"
            " AND database = currentDatabase() GROUP BY table ORDER BY size DESC"
        )
        store.close()
    total = sum(int(size) for _, size in sizes)
    print(f"{records:,} {kind}: {total / 1e6:.1f} MB, {total / records:.0f} bytes each")
    for table, size in sizes:
        if int(size) / records >= 1:
            print(f"    {table:24} {int(size) / records:6.0f}")


def timed(label: str, *words: object) -> None:
    """Run a command and print its duration."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
    )
    said = next((line for line in done.stdout.splitlines() if "paused" in line), "")
    print(f"{label}: {time.perf_counter() - started:.1f} s {said}")


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-backup-"))
    try:
        for kind in (Kind.EVENTS, Kind.SPANS):
            place = folder / kind
            collector = CollectorProcess(place).start()
            collector.stop()
            fill(Settings(data_dir=place), kind, args.records)
            timed(f"backup of {kind}", "backup", folder / f"saved-{kind}", "--data-dir", place)
            timed(
                f"restore of {kind}",
                *("restore", folder / f"saved-{kind}", "--data-dir", folder / f"new-{kind}"),
            )
            with Supervisor(EngineSettings(store_dir=folder / f"server-{kind}")) as server:
                to = f"http://u:{server.secret}@{server.host}:{server.port}/copy"
                timed(f"copy of {kind}", "migrate-store", "--to", to, "--data-dir", place)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
