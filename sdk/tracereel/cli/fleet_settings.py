"""Options of commands that execute many runs: processes, time limit, repetitions, files."""

import argparse
import os
from pathlib import Path
from typing import Final

from tracereel.cli import connection
from tracereel.fleet.file import FleetFileError
from tracereel.fleet.runner import FleetSettings

_SETTINGS: Final = FleetSettings(root=Path())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--processes",
        type=connection.positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="Worker processes (default: one per processor).",
    )
    parser.add_argument(
        "--time-limit",
        type=connection.seconds,
        default=_SETTINGS.seconds,
        metavar="SECONDS",
        help=f"Longest time of a run ({_SETTINGS.seconds:g}).",
    )
    parser.add_argument(
        "--repeats",
        type=connection.positive,
        default=_SETTINGS.repeats,
        metavar="N",
        help=f"How often a run that is not the same is executed ({_SETTINGS.repeats});"
        " if that differs, it is flaky.",
    )
    parser.add_argument(
        "--copy",
        action="append",
        default=[],
        metavar="PATH",
        help="File or folder that runs find in their directory; may be given several times.",
    )


def settings_of(args: argparse.Namespace, baseline: Path | None = None) -> FleetSettings:
    """Return the settings, with the working directory as the working tree.

    Raises:
        FleetFileError: a file to copy is not there.
    """
    return FleetSettings(
        root=Path.cwd(),
        baseline=baseline,
        processes=args.processes,
        seconds=args.time_limit,
        repeats=args.repeats,
        copied=tuple(map(_inside, args.copy)),
    )


def _inside(name: str) -> str:
    """Return a path relative to the working tree."""
    path = Path(name)
    if not path.exists():
        raise FleetFileError(f"--copy {name}: there is no such file or folder here")
    if not path.resolve().is_relative_to(Path.cwd().resolve()):
        raise FleetFileError(f"--copy {name} is outside of {Path.cwd()}")
    return str(path.resolve().relative_to(Path.cwd().resolve()))
