"""Measure what an insert of few records costs the engine, and what each view behind it has of that.

    python bench/insert.py [--kind events] [--records 100] [--inserts 12]

Every view is detached in turn. An insert plans all views, whatever it holds: with a hundred records, its
cost is that of planning and of writing a part to each table.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.load import KINDS
from tests.support.engine_store import store_of_its_own
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.clickhouse import ClickHouseStore

SOURCES = {"events": ("agent_%", "event%"), "spans": ("otlp_traces%", "otel_%", "span%")}
VIEWS = """SELECT name FROM system.tables
WHERE database = currentDatabase() AND engine = 'MaterializedView'
    AND arrayExists(p -> name LIKE p, {names:Array(String)})
    AND name NOT LIKE '%\\\\_in\\\\_to\\\\_%' ORDER BY name"""


class Inserts:
    """Inserts bodies one by one and measures the engine's CPU."""

    def __init__(self, store: ClickHouseStore, kind: str, records: int) -> None:
        self._store = store
        self._kind = Kind(kind)
        self._records = records
        self._bodies = KINDS[kind][2](1, records)
        self._number = 0
        (self._engine,) = psutil.Process().children()

    def one(self) -> None:
        """Insert a body."""
        self._number += 1
        body = QueuedBody(
            id=self._number,
            kind=self._kind,
            tenant="default",
            first_sequence_number=self._number * self._records,
            records=self._records,
            received_unix_nano=time.time_ns(),
            data=next(self._bodies),
        )
        self._store.insert(self._kind, [body], token=uuid.uuid4().hex)

    def cost(self, count: int) -> float:
        """Return the milliseconds of CPU of an insert."""
        self.one()
        before = self._engine.cpu_times()
        for _ in range(count):
            self.one()
        after = self._engine.cpu_times()
        return (after.user + after.system - before.user - before.system) / count * 1e3


def without(store: ClickHouseStore, view: str, measured: Callable[[], float]) -> float:
    """Return what is measured while a view is away."""
    store.command(f"DETACH TABLE {view} SYNC")
    try:
        return measured()
    finally:
        store.command(f"ATTACH TABLE {view}")


def main() -> None:
    """Run the benchmark and print a line for each view."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=sorted(SOURCES), default="events")
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--inserts", type=int, default=12)
    args = parser.parse_args()
    with store_of_its_own(memory=1 << 31) as store:
        store.command("SYSTEM STOP MERGES")
        inserts = Inserts(store, args.kind, args.records)
        inserts.cost(4)
        whole = inserts.cost(args.inserts)
        print(f"{whole:7.1f} ms  an insert of {args.records} {args.kind}", flush=True)
        for (view,) in store.rows(VIEWS, names=list(SOURCES[args.kind])):
            left = without(store, view, lambda: inserts.cost(args.inserts))
            print(f"{whole - left:7.1f} ms  {view}", flush=True)
        again = inserts.cost(args.inserts)
        print(f"{again:7.1f} ms  all of them again")


if __name__ == "__main__":
    main()
