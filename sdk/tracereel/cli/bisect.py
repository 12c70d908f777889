"""`tracereel bisect`: the first commit with which a recorded run is replayed differently."""

import argparse
from pathlib import Path
from typing import Final

import msgspec

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO, EXIT_NO_ANSWER, failed, print_json, with_exit_status
from tracereel.cli.progress import progress
from tracereel.cli.rerun import tape_of
from tracereel.cli.terminal import clean
from tracereel.fleet.bisecting import Bisected, BisectError, first_change
from tracereel.fleet.file import FleetRun
from tracereel.fleet.runner import FleetRunError, FleetSettings
from tracereel.fleet.source import RevisionError
from tracereel.tape.format import TapeError

_SECONDS: Final = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run, or the file of a tape.")
    parser.add_argument("--good", metavar="REV", required=True, help="Revision that repeats it.")
    parser.add_argument("--bad", metavar="REV", default="HEAD", help="Later one (HEAD).")
    parser.add_argument(
        "--time-limit",
        type=connection.seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help=f"Longest time of a replay ({_SECONDS:g}).",
    )
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    connection.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Bisect, and print the commit with the line that differs."""
    return with_exit_status(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    try:
        tape, _ = tape_of(args)
        settings = FleetSettings(root=Path.cwd(), seconds=args.time_limit)
        with progress("replaying") as bar:
            found = first_change(
                FleetRun.of(tape),
                settings,
                args.good,
                args.bad,
                noted=lambda replays: bar.update(replays, None),
            )
    except (BisectError, TapeError) as error:
        return failed(args.command, str(error), EXIT_NO)
    except (RevisionError, FleetRunError) as error:
        return failed(args.command, str(error), EXIT_NO_ANSWER)
    _show(found, as_json=args.json)
    return 0


def _show(found: Bisected, *, as_json: bool) -> None:
    verdict = found.verdict
    if as_json:
        print_json(
            {
                "commit": found.commit,
                "subject": found.subject,
                "verdict": verdict.verdict,
                "cause": msgspec.to_builtins(verdict.cause),
                "unknown": list(found.unknown),
                "replays": found.replays,
                "report": verdict.text,
            }
        )
        return
    print(f"{found.commit} is the first commit with which the run is {verdict.verdict}")
    print(clean(found.subject))
    if found.unknown:
        print(f"or one of {len(found.unknown)} before it, which are inconclusive")
    print(f"{clean(str(verdict.cause))}, after {found.replays} replays")
    for line in verdict.text.splitlines():
        print(f"  {' ' * (len(line) - len(line.lstrip()))}{clean(line)}")
