"""`tracereel test-from`: write a recorded run as a test, or its tape as a file."""

import argparse
import sys
from typing import Final

from tracereel.cli import connection, rerun
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import clean, quoted
from tracereel.client import CollectorUnavailableError
from tracereel.errors import TracereelError
from tracereel.tape.export import export, of_object, redacted


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run, or the file of a tape.")
    connection.add_options(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--directory", metavar="DIR", help="Write a test and its tape into this folder."
    )
    where.add_argument("--tape", metavar="FILE", help="Write the redacted tape alone.")
    parser.add_argument(
        "--name", help="What the test is called (default: the agent and the trace)."
    )


def _run(args: argparse.Namespace) -> int:
    try:
        tape = rerun.tape_of(args)
        if args.tape:
            redacted(tape).save(args.tape)
            print(f"wrote {clean(args.tape)}")
            return 0
        files = export(tape, args.directory, name=args.name)
    except CollectorUnavailableError as error:
        hint = connection.start_hint(connection.config_of(args).endpoint)
        print(f"tracereel test-from: {clean(str(error))}; {hint}", file=sys.stderr)
        return rerun.EXIT_COULD_NOT
    except TracereelError as error:
        print(f"tracereel test-from: {clean(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        where = clean(str(error.filename or args.tape or args.directory))
        print(f"tracereel test-from: cannot write {where}: {error.strerror}", file=sys.stderr)
        return rerun.EXIT_COULD_NOT
    wrote = f"wrote {clean(files.test)} and {files.tape.name}"
    print(f"{wrote}; run it with: pytest {quoted(files.test)}")
    if (method := of_object(tape)) is not None:
        print(
            f"note: the run began with {clean(method)}, whose object is not on the tape: the test"
            " passes once it makes one and names its method"
        )
    for reason in tape.reasons:
        print(f"note: {clean(reason)}")
    return 0


COMMAND: Final = Command("test-from", BASE_COMMANDS["test-from"].help, _configure, _run)
