"""`tracereel verify`: how many failing runs are fixed with this code, and how many others changed."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tracereel.cli import connection, fleet_settings
from tracereel.cli.asking import (
    EXIT_NO,
    EXIT_NO_ANSWER,
    client_of,
    failed,
    with_exit_status,
)
from tracereel.cli.progress import progress
from tracereel.fleet.file import FleetFile, FleetFileError, FleetRun
from tracereel.fleet.runner import FleetRunError
from tracereel.fleet.verifying import MIN_BUDGET, RunSet, answer, verify
from tracereel.tape import format as tape_format
from tracereel.tape.format import TapeError
from tracereel.tape.replaying import fetched

_BUDGET: Final = 8_000
_GZIP: Final = b"\x1f\x8b"
_RUNS: Final = "A file of `tracereel fleet pull` or of a tape, or the id of a run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    for name, text in (("failing", "that should be fixed"), ("good", "that should stay the same")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            required=name == "failing",
            metavar="RUNS",
            help=f"{_RUNS} {text}; may be given several times.",
        )
    parser.add_argument(
        "--budget",
        type=_budget,
        default=_BUDGET,
        metavar="BYTES",
        help=f"Longest answer ({_BUDGET}); what is cut is counted.",
    )
    fleet_settings.add_options(parser)
    connection.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Execute the runs and print one JSON document."""
    try:
        return with_exit_status(args, lambda: _run(args))
    except (FleetFileError, FleetRunError, TapeError) as error:
        return failed(args.command, str(error), EXIT_NO_ANSWER)


def _run(args: argparse.Namespace) -> int:
    failing = _chosen(args, args.failing)
    good = _chosen(args, args.good, without=failing.ids)
    with progress("replaying") as bar:
        found = verify(failing, good, fleet_settings.settings_of(args), noted=bar.update)
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(answer(found, args.budget - 1, indent=indent) + "\n")
    return EXIT_NO if found.failures else 0


def _chosen(
    args: argparse.Namespace, named: Iterable[str], *, without: frozenset[str] = frozenset()
) -> RunSet:
    files: list[FleetFile] = []
    singles: list[FleetRun] = []
    for each in named:
        path = Path(each)
        if not path.is_file():
            if path.suffix or "/" in each:
                raise FleetFileError(f"there is no file {each}, and it is no id of a run")
            singles.append(FleetRun.of(fetched(client_of(args), each)))
        elif _is_compressed(path):
            files.append(FleetFile(path))
        else:
            singles.append(FleetRun.of(tape_format.load(path)))
    return RunSet(tuple(files), tuple(singles), without)


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _budget(text: str) -> int:
    value = connection.positive(text)
    if value < MIN_BUDGET:
        raise argparse.ArgumentTypeError(f"{text} is too short; expected at least {MIN_BUDGET}")
    return value
