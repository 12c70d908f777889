"""`tracereel backup` and `tracereel restore`: consistent copy of a data directory."""

import argparse
import re
from pathlib import Path

from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.ops.backup.restore import restore_backup
from tracereel_collector.ops.backup.save import make_backup
from tracereel_collector.runtime.permissions import make_files_private

WAIT_SECONDS = 60.0
_PLACE = re.compile(r"(Disk|File|S3|AzureBlobStorage)\([^()`;]*\)")


def _configure_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to; made if absent")
    parser.add_argument("--data-dir", type=Path, help="data directory of the collector")
    parser.add_argument("--store", help="the server, where the collector uses one")
    parser.add_argument(
        "--server-to",
        metavar="PLACE",
        help="where the server keeps its part, in ClickHouse's words: Disk('backups', 'monday')",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"longest wait for the batch under way (default {WAIT_SECONDS:g})",
    )


def _configure_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="what `backup` made")
    parser.add_argument("--data-dir", type=Path, help="the new data directory; empty or absent")
    parser.add_argument("--store", help="the server, where the backup is of one")


def _run_backup(args: argparse.Namespace) -> int:
    make_files_private()
    settings = settings_of(args)
    _check_place(settings, args.server_to)
    made = make_backup(
        settings, args.directory, wait_seconds=args.wait, server_place=args.server_to, say=_say
    )
    size = sum(size for size, _ in made.files.values())
    print(
        f"backup complete in {args.directory}: {made.tables.get('agent_events', 0):,} events,"
        f" {made.tables.get('otel_spans', 0):,} spans, {made.waiting_bodies:,} requests not yet in"
        f" the store, {size:,} bytes"
    )
    return 0


def _run_restore(args: argparse.Namespace) -> int:
    make_files_private()
    settings = settings_of(args)
    try:
        made = restore_backup(settings, args.directory, say=_say)
    except OSError as error:
        raise StartupError(f"it could not be written: {error}") from error
    print(
        f"restored to {settings.data_dir}: {made.tables.get('agent_events', 0):,} events,"
        f" {made.tables.get('otel_spans', 0):,} spans; start it with:"
        f" tracereel serve --data-dir {settings.data_dir}"
    )
    return 0


def _check_place(settings: Settings, place: str | None) -> None:
    if (settings.store == "embedded") != (place is None):
        raise StartupError(
            "--server-to is for collectors that use a server, and they need it",
            hint="such as --server-to \"Disk('backups', 'monday')\"",
        )
    if place is not None and not _PLACE.fullmatch(place):
        raise StartupError(
            f"--server-to {place!r}: expected a place in ClickHouse's words, Disk('backups', 'monday')"
        )


def _say(line: str) -> None:
    print(line, flush=True)


BACKUP = command(
    "backup", "save queue, store and keys of one moment", _configure_backup, _run_backup
)
RESTORE = command(
    "restore", "make a data directory out of a backup", _configure_restore, _run_restore
)
