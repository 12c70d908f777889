"""`tracereel dump`: take recorded events, spans or scores out of a collector, into a file or a pipe."""

import argparse
import contextlib
import sys
from typing import BinaryIO, Final

from tracereel.cli import asking, connection
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.client import Client
from tracereel.client.keeping import Counting, whole_file

_BAR: Final = 30


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="Where to write (default: the standard output)."
    )
    parser.add_argument("--table", choices=("events", "spans", "scores"), default="events")
    parser.add_argument("--format", choices=("ndjson", "parquet"), default="ndjson")
    parser.add_argument("--trace-id", metavar="ID", help="Only this run.")
    parser.add_argument("--agent", metavar="NAME", help="Only what this agent did.")
    asking.add_window(parser)
    connection.add_options(parser)


def _run(args: argparse.Namespace) -> int:
    return asking.asked(args, lambda client, _: _copied(client, args))


def _copied(client: Client, args: argparse.Namespace) -> int:
    chosen = (args.trace_id, args.agent, args.since, args.until)
    try:
        with (
            client.open_export(args.table, args.format, *chosen) as stream,
            _output(args.output) as out,
        ):
            progress = _Progress(Counting.of(stream, args.format))
            for chunk in stream.chunks():
                out.write(chunk)
                progress.add(chunk)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise  # whoever read has seen enough
        said = f"cannot write {args.output or 'the standard output'}: {error.strerror}"
        return asking.failed(args.command, said, asking.EXIT_NO_ANSWER)
    rows = progress.end()
    if args.output:
        print(f"{rows} to {args.output}", file=sys.stderr)
    return 0


def _output(name: str | None) -> contextlib.AbstractContextManager[BinaryIO]:
    return contextlib.nullcontext(sys.stdout.buffer) if name is None else whole_file(name)


class _Progress:
    """A bar on a terminal; a log file is spared it."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._shown = sys.stderr.isatty()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """So much more has come."""
        self._bytes += len(chunk)
        self._counting.add(chunk)
        self._draw()

    def end(self) -> str:
        """What came, in words."""
        rows = self._counting.end()
        self._draw()
        if self._shown:
            print(file=sys.stderr)
        return f"{rows} rows, {self._bytes / 1e6:.1f} MB"

    def _draw(self) -> None:
        if self._shown:
            print(f"\r{self._line()}", end="", file=sys.stderr, flush=True)

    def _line(self) -> str:
        rows, total = self._counting.rows, self._counting.total
        size = f"{self._bytes / 1e6:.1f} MB"
        if not total:
            return f"{rows} rows  {size}"
        share = min(1.0, rows / total)
        bar = "#" * int(_BAR * share)
        return f"[{bar:<{_BAR}}] {share:4.0%}  {rows} of {total} rows  {size}"


COMMAND: Final = Command("dump", BASE_COMMANDS["dump"].help, _configure, _run)
