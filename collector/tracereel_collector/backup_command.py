"""`tracereel backup` and `tracereel restore`: the whole of a data directory, at one moment."""

import argparse
import os
import sys
from pathlib import Path

from tracereel_collector.config import Settings
from tracereel_collector.errors import CollectorError, StartupError

WAIT_SECONDS = 60.0


def configure_backup(parser: argparse.ArgumentParser) -> None:
    """From where, whereto."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to; made if absent")
    parser.add_argument("--data-dir", type=Path, help="data directory of the collector")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"longest wait for the batch under way (default {WAIT_SECONDS:g})",
    )


def configure_restore(parser: argparse.ArgumentParser) -> None:
    """From where, whereto."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="what `backup` made")
    parser.add_argument("--data-dir", type=Path, help="the new data directory; empty or absent")


def run_backup(args: argparse.Namespace) -> int:
    """Make one; 0 when it is complete."""
    from tracereel_collector.backup.save import make_backup

    try:
        made = make_backup(
            _settings(args, "backup"), args.directory, wait_seconds=args.wait, say=_say
        )
    except CollectorError as error:
        return _fail("backup", error)
    size = sum(size for size, _ in made.files.values())
    print(
        f"backup complete in {args.directory}: {made.tables.get('agent_events', 0):,} events,"
        f" {made.tables.get('otel_spans', 0):,} spans, {made.waiting_bodies:,} requests not yet in"
        f" the store, {size:,} bytes"
    )
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Make a data directory of one; 0 when a collector can be started on it."""
    from tracereel_collector.backup.bring_back import restore_backup

    try:
        settings = _settings(args, "restore")
        made = restore_backup(settings, args.directory, say=_say)
    except CollectorError as error:
        return _fail("restore", error)
    except OSError as error:
        return _fail("restore", StartupError(f"it could not be written: {error}"))
    print(
        f"restored to {settings.data_dir}: {made.tables.get('agent_events', 0):,} events,"
        f" {made.tables.get('otel_spans', 0):,} spans; start it with:"
        f" tracereel serve --data-dir {settings.data_dir}"
    )
    return 0


def _settings(args: argparse.Namespace, command: str) -> Settings:
    settings = Settings.load({"data_dir": args.data_dir}, os.environ)
    if settings.store != "embedded":
        raise StartupError(
            f"tracereel {command} saves the embedded store, and this collector uses a server",
            hint="docs/operations.md says how to back up a server and its collectors' queues",
        )
    return settings


def _say(line: str) -> None:
    print(line, flush=True)


def _fail(command: str, error: CollectorError) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"tracereel {command}: {error.message}{hint}", file=sys.stderr)
    return 2
