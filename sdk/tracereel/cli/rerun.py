"""`tracereel replay TRACE_ID --run`: re-execute a recorded run with the program's code of now."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracereel.cli import connection
from tracereel.cli.asking import TIMEOUT
from tracereel.cli.terminal import clean
from tracereel.client import Client, ClientError, TraceNotFoundError

if TYPE_CHECKING:
    from tracereel.tape.format import Tape

EXIT_DIVERGED: Final = 1
EXIT_COULD_NOT: Final = 2
MODES: Final = ("strict", "report", "live-after")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a re-execution."""
    group = parser.add_argument_group("re-execution")
    group.add_argument(
        "--run",
        metavar="MODULE:FUNCTION",
        nargs="?",
        const="",
        help="Re-execute the run: call this function (the recorded entry point if none is named);"
        " calls to models and tools are served from the tape.",
    )
    group.add_argument("--mode", choices=MODES, default="strict", help="What a divergence does.")
    group.add_argument(
        "--fork-at", type=int, metavar="N", help="Make the calls from the N-th on for real."
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="TOOL",
        help="A tool that may run for real although it changes something; may be given again.",
    )
    group.add_argument(
        "--allow-network",
        action="append",
        default=[],
        metavar="HOST",
        help="A host that may be reached; may be given again.",
    )
    group.add_argument(
        "--freeze", action="store_true", help="Time, random numbers and UUIDs as in every replay."
    )


def tape_of(args: argparse.Namespace) -> "Tape":
    """The tape that a command names: a file, or that of a trace in the collector.

    Raises:
        TracereelError: there is none.
    """
    from tracereel.tape import format as tape_format

    if Path(args.trace_id).is_file():
        return tape_format.load(args.trace_id)
    settings = connection.config_of(args)
    client = Client(settings.endpoint, settings.api_key or "", TIMEOUT)
    return tape_format.parse(client.tape(args.trace_id).splitlines(), where=args.trace_id)


def run(args: argparse.Namespace) -> int:
    """Re-execute a run and say what was found."""
    from tracereel.tape import DivergenceError, NotAllowedError, TapeEndedError, TapeError
    from tracereel.tape import fork as make_fork
    from tracereel.tape import replay as make_replay
    from tracereel.tape.guards import NetworkBlockedError
    from tracereel.tape.replaying import load_function

    try:
        tape = tape_of(args)
        function = load_function(args.run) if args.run else None
        if args.fork_at is not None:
            again = make_fork(tape, at=args.fork_at, allow=args.allow)
        else:
            again = make_replay(
                tape,
                mode=args.mode,
                freeze=args.freeze,
                allow=args.allow,
                allow_network=args.allow_network,
            )
    except (TraceNotFoundError, TapeError) as error:
        return _fail(str(error), EXIT_DIVERGED)
    except ClientError as error:
        return _fail(str(error), EXIT_COULD_NOT)
    try:
        with again:
            result = again.call(function)
        print(f"result: {clean(repr(result))[:2000]}")
    except (DivergenceError, TapeEndedError):
        pass
    except (NotAllowedError, NetworkBlockedError, TapeError) as error:
        return _fail(str(error), EXIT_DIVERGED)
    except Exception as error:  # noqa: BLE001 - the program's own, which the recorded run may have had too
        print(f"raised: {clean(repr(error))[:2000]}")
    for line in str(again.report).splitlines():
        print(clean(line))
    if args.fork_at is not None:
        print(f"recorded as {again.tape.trace_id}")
        return 0
    return 0 if again.report.identical else EXIT_DIVERGED


def _fail(message: str, status: int) -> int:
    print(f"tracereel replay: {clean(message)}", file=sys.stderr)
    return status
