"""`tracereel migrate-store`: copy an embedded store into a ClickHouse server or a cluster."""

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tracereel.cli.progress import progress
from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.permissions import make_files_private
from tracereel_collector.startup.data_dir import QUEUE_FILE, maintenance_store, reached_store
from tracereel_collector.startup.offline import drain
from tracereel_collector.startup.schema import apply_schema
from tracereel_collector.store.clickhouse import StoreAddress
from tracereel_collector.store.copying import StoreCopy

_SCHEMES = {"http": "clickhouse", "https": "clickhouses"}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        required=True,
        metavar="DSN",
        help="the server, or any node of a cluster: clickhouse[s]://user:pass@host:port/db, or http[s]://…",
    )
    parser.add_argument("--data-dir", type=Path, help="data directory of the stopped collector")


def _run(args: argparse.Namespace) -> int:
    """Copy and compare the tables; return 0 when the server has all rows."""
    make_files_private()
    counted = _copied(settings_of(args), args.to)
    for table, (there, _) in counted.items():
        if there:
            print(f"{table:40} {there:>15,}")
    print(
        f"{sum(there for there, _ in counted.values()):,} rows in {len(counted)} tables, the same"
        " there as here; go on with: tracereel serve --store DSN, and the same --data-dir"
    )
    return 0


def _copied(settings: Settings, to: str) -> dict[str, tuple[int, int]]:
    scheme, separator, rest = to.partition("://")
    if not separator or _SCHEMES.get(scheme, scheme) not in _SCHEMES.values():
        raise StartupError(
            f"--to {scheme}: expected clickhouse[s]://user:pass@host:port/db, or http[s]://…"
        )
    address = StoreAddress.parse(f"{_SCHEMES.get(scheme, scheme)}://{rest}")
    with reached_store(replace(settings, store="embedded")) as reached:
        if reached.is_served:
            raise StartupError(
                f"a collector runs on {settings.data_dir}",
                hint="stop it first; agents keep their events until one answers",
            )
        with (
            closing(maintenance_store(reached.address)) as source,
            closing(maintenance_store(address)) as target,
        ):
            if (settings.data_dir / QUEUE_FILE).is_file():
                with progress("delivering what waits in the queue") as shown:
                    drain(settings, source, report=lambda left: shown.update(left, None))
            apply_schema(target)
            with progress("copying") as shown:
                return StoreCopy(source, target, report=shown.update).run()


COMMAND = command(
    "migrate-store",
    "copy the embedded store into a ClickHouse server or a cluster",
    _configure,
    _run,
)
