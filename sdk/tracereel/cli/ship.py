"""`tracereel ship`: deliver the events that ended processes left in the spool."""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tracereel.cli import connection
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS

if TYPE_CHECKING:
    from tracereel._shipper import FlushResult

DEFAULT_TIMEOUT: Final = 30.0
EXIT_COULD_NOT: Final = 2


def _configure(parser: argparse.ArgumentParser) -> None:
    connection.add_options(parser)
    parser.add_argument(
        "--spool-dir",
        metavar="DIR",
        help="Where the events wait"
        " (default: $TRACEREEL_SPOOL_DIR, else the user's state directory).",
    )
    parser.add_argument(
        "--timeout",
        type=connection.seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"Longest time to try (default: {DEFAULT_TIMEOUT:g}).",
    )


def _run(args: argparse.Namespace) -> int:
    from tracereel._shipper import ship_leftovers
    from tracereel.cli.spool_checks import waiting

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    settings = connection.config_of(args)
    if args.spool_dir is not None and not settings.spool_dir.is_dir():
        # Without this, a misspelt directory has nothing to deliver.
        print(f"tracereel ship: there is no directory {settings.spool_dir}", file=sys.stderr)
        return EXIT_COULD_NOT
    _, dead = waiting(settings.destination_dir)
    if dead.events:
        print(f"shipping {dead} to {settings.endpoint}", file=sys.stderr)
    result = ship_leftovers(settings, timeout=args.timeout, progress=_progress(dead.events))
    print(f"delivered {result.delivered}, spooled {result.spooled}, dropped {result.dropped}")
    if result.spooled:
        print(
            f"tracereel ship: {settings.endpoint} did not take everything within"
            f" {args.timeout:g} s; if no collector runs there,"
            f" {connection.start_hint(settings.endpoint)}",
            file=sys.stderr,
        )
    if result.dropped:
        print(
            f"tracereel ship: the collector refused {result.dropped} events; they and the reasons"
            f" are kept in {settings.destination_dir}",
            file=sys.stderr,
        )
    return 1 if result.spooled or result.dropped else 0


def _progress(total: int) -> "Callable[[FlushResult], None] | None":
    """A line that counts up on a terminal; a log file is spared it."""
    if not sys.stderr.isatty():
        return None

    def show(so_far: "FlushResult") -> None:
        end = "\n" if so_far.spooled == 0 else ""
        done = so_far.delivered + so_far.dropped
        print(f"\r{done} of {total} events", end=end, file=sys.stderr, flush=True)

    return show


COMMAND: Final = Command("ship", BASE_COMMANDS["ship"].help, _configure, _run)
