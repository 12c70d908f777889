"""The collector's commands, each with what configures and runs it."""

import argparse
import os
import sys
from pathlib import Path

from tracereel.cli.command import Command
from tracereel_collector import (
    backup_command,
    migrate_command,
    quarantine_command,
    retention_command,
    schema_command,
)
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 4318)")
    parser.add_argument("--grpc-port", help="port for OTLP over gRPC (default 4317), or off")
    parser.add_argument("--data-dir", type=Path, help="where queue and embedded store live")
    parser.add_argument("--store", help="embedded, or clickhouse[s]://user:pass@host:port/db")
    parser.add_argument(
        "--workers", type=int, help="processes that accept requests (default: by the cores)"
    )
    parser.add_argument(
        "--forward-to", metavar="URL", help="OTLP/HTTP endpoint that everything received goes on to"
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="also run the demo pipeline, emitting into this collector",
    )


def _run_serve(args: argparse.Namespace) -> int:
    from tracereel_collector.serve import serve  # only now: it needs the collector's packages

    try:
        settings = Settings.load(vars(args), os.environ)
        return serve(settings, demo=args.demo)
    except StartupError as error:
        hint = f" ({error.hint})" if error.hint else ""
        print(f"tracereel serve: {error.message}{hint}", file=sys.stderr)
        return 2


def _configure_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="where the embedded store lives")


def _run_engine(args: argparse.Namespace) -> int:
    from tracereel_collector.serve import run_engine_alone

    try:
        return run_engine_alone(Settings.load(vars(args), os.environ))
    except StartupError as error:
        print(f"tracereel engine: {error.message}", file=sys.stderr)
        return 2


serve = Command("serve", "run the collector", _configure_serve, _run_serve)
engine = Command("engine", "run the embedded store alone", _configure_engine, _run_engine)
quarantine = Command(
    "quarantine",
    "look into a collector's quarantine: list, show, retry or drop",
    quarantine_command.configure,
    quarantine_command.run,
)
schema = Command(
    "schema",
    "print the tables and views, for a server or a cluster",
    schema_command.configure,
    schema_command.run,
)
backup = Command(
    "backup",
    "save queue, store and keys of one moment",
    backup_command.configure_backup,
    backup_command.run_backup,
)
restore = Command(
    "restore",
    "make a data directory out of a backup",
    backup_command.configure_restore,
    backup_command.run_restore,
)
retention = Command(
    "retention",
    "show or set how long rows are kept",
    retention_command.configure,
    retention_command.run,
)
migrate_store = Command(
    "migrate-store",
    "copy the embedded store into a ClickHouse server",
    migrate_command.configure,
    migrate_command.run,
)
