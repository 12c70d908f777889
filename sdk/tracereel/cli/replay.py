"""`tracereel replay`: a recorded run as a timeline in the terminal, or as the collector's JSON."""

import argparse
import sys
from typing import Final

from tracereel.cli import connection, rerun
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import Terminal, clean
from tracereel.cli.timeline import render
from tracereel.client import (
    DEFAULT_TIMEOUT,
    ClientError,
    CollectorUnavailableError,
    Replay,
    TraceNotFoundError,
)

EXIT_UNKNOWN_TRACE: Final = 1
EXIT_NO_ANSWER: Final = 2


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run to show.")
    connection.add_options(parser)
    rerun.add_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="Print the collector's JSON as it is, for machines."
    )


def _run(args: argparse.Namespace) -> int:
    if args.run is not None:
        return rerun.run(args)
    try:
        settings = connection.config_of(args)
        replay = connection.client_of(settings, timeout=DEFAULT_TIMEOUT).replay(args.trace_id)
    except TraceNotFoundError as error:
        return _fail(str(error), EXIT_UNKNOWN_TRACE)
    except CollectorUnavailableError as error:
        return _fail(f"{error}; {connection.START_HINT}", EXIT_NO_ANSWER)
    except ClientError as error:
        return _fail(str(error), EXIT_NO_ANSWER)
    if args.json:
        _print_raw(replay)
    else:
        for line in render(replay, Terminal.of(sys.stdout)):
            print(line)
    return 0


def _print_raw(replay: Replay) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(replay.raw if replay.raw.endswith(b"\n") else replay.raw + b"\n")
    sys.stdout.buffer.flush()


def _fail(message: str, status: int) -> int:
    # Part of the message may be the server's: keep it to one harmless line.
    print(f"tracereel replay: {clean(message)}", file=sys.stderr)
    return status


COMMAND: Final = Command("replay", BASE_COMMANDS["replay"].help, _configure, _run)
