"""`tracereel ship`: deliver the events that ended processes left in the spool."""

import argparse
import logging
import sys
from collections import deque
from pathlib import Path
from typing import Final

from tracereel._export.leftovers import ship_leftovers
from tracereel._export.sender import DeliveryUnavailableError
from tracereel._export.shipper import FlushResult
from tracereel.cli import connection
from tracereel.cli.progress import progress
from tracereel.cli.spool_checks import waiting, waiting_elsewhere
from tracereel.config import Config

DEFAULT_TIMEOUT: Final = 30.0
EXIT_COULD_NOT: Final = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    connection.add_options(parser)
    parser.add_argument(
        "--spool-dir",
        metavar="DIR",
        help="Where the events wait"
        " (default: $TRACEREEL_SPOOL_DIR, else the user's state directory).",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="Deliver this one directory of a spool, whatever key it was recorded under, to the"
        " tenant of the key given here; `tracereel doctor` names directories that need it.",
    )
    parser.add_argument(
        "--timeout",
        type=connection.seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"Longest time to try (default: {DEFAULT_TIMEOUT:g}).",
    )


def run(args: argparse.Namespace) -> int:
    """Deliver waiting events and report the result."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    settings = connection.config_of(args)
    if args.spool_dir is not None and not settings.spool_dir.is_dir():
        # Otherwise a misspelt directory would look like an empty spool.
        print(f"tracereel ship: there is no directory {settings.spool_dir}", file=sys.stderr)
        return EXIT_COULD_NOT
    if args.source is not None and not args.source.is_dir():
        print(
            f"tracereel ship: --from is {str(args.source)!r}; expected a directory of a spool, as"
            " `tracereel doctor` names it",
            file=sys.stderr,
        )
        return EXIT_COULD_NOT
    directory = args.source or settings.destination_dir
    _, dead = waiting(directory)
    if dead.events:
        print(f"shipping {dead} to {settings.endpoint}", file=sys.stderr)
    troubles: deque[DeliveryUnavailableError] = deque(maxlen=1)
    with progress("shipping") as shown:

        def update(so_far: FlushResult) -> None:
            done = so_far.delivered + so_far.dropped
            shown.update(done, done + so_far.spooled)

        result = ship_leftovers(
            settings,
            timeout=args.timeout,
            progress=update,
            on_trouble=troubles.append,
            source=args.source,
        )
    print(f"delivered {result.delivered}, spooled {result.spooled}, dropped {result.dropped}")
    if result.spooled:
        print(f"tracereel ship: {_why(settings, args.timeout, troubles)}", file=sys.stderr)
    if result.dropped:
        print(
            f"tracereel ship: the collector refused {result.dropped} events; they and the reasons"
            f" are kept in {directory}",
            file=sys.stderr,
        )
    if args.source is None and (others := waiting_elsewhere(settings)):
        print(
            f"tracereel ship: {others} events wait for another key or endpoint;"
            " tracereel doctor says how to deliver them",
            file=sys.stderr,
        )
    return 1 if result.spooled or result.dropped else 0


def _why(settings: Config, timeout: float, troubles: deque[DeliveryUnavailableError]) -> str:
    """Explain why events are left, by the last trouble."""
    last = troubles[-1] if troubles else None
    if last is not None and last.refused_key:
        return (
            f"{settings.endpoint} refused the key: {last.reason}; pass --api-key or set"
            " TRACEREEL_API_KEY to a key with the scope write"
        )
    if last is not None and not last.no_answer:
        return f"{settings.endpoint} did not take everything within {timeout:g} s: {last.reason}"
    return (
        f"{settings.endpoint} did not take everything within {timeout:g} s; if no collector runs"
        f" there, {connection.start_hint(settings.endpoint)}"
    )
