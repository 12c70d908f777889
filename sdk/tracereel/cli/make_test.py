"""`tracereel test-from`: write a recorded run as a test, or its tape as a file."""

import argparse

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO, EXIT_NO_ANSWER, failed, with_exit_status
from tracereel.cli.rerun import tape_of
from tracereel.cli.terminal import clean, quoted
from tracereel.tape.export import export, of_object, redacted
from tracereel.tape.format import TapeError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run, or the file of a tape.")
    connection.add_options(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--directory", metavar="DIR", help="Write a test and its tape into this folder."
    )
    where.add_argument("--tape", metavar="FILE", help="Write the redacted tape alone.")
    parser.add_argument("--name", help="Name of the test (default: the agent and the trace).")


def run(args: argparse.Namespace) -> int:
    """Write the test or the tape."""
    return with_exit_status(args, lambda: _write(args))


def _write(args: argparse.Namespace) -> int:
    try:
        tape, _ = tape_of(args)
        if args.tape:
            redacted(tape).save(args.tape)
            print(f"wrote {clean(args.tape)}")
            return 0
        files = export(tape, args.directory, name=args.name)
    except TapeError as error:
        return failed(args.command, str(error), EXIT_NO)
    except OSError as error:
        where = error.filename or args.tape or args.directory
        return failed(args.command, f"cannot write {where}: {error.strerror}", EXIT_NO_ANSWER)
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
