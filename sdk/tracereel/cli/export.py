"""`tracereel export`: write events, spans or scores to a file or a pipe."""

import argparse
import codecs
import contextlib
import sys
from typing import Any, BinaryIO, Final, Protocol

from tracereel.cli import asking, connection
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import clean, harmless_json
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
    if args.output is None and args.format == "parquet" and sys.stdout.isatty():
        said = "parquet is no text for a terminal; name a file with --output FILE"
        return asking.failed(args.command, said, asking.EXIT_NO_ANSWER)
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
            raise  # the reader has closed the pipe
        said = f"cannot write {args.output or 'the standard output'}: {error.strerror}"
        return asking.failed(args.command, said, asking.EXIT_NO_ANSWER)
    rows = progress.end()
    if args.output:
        print(f"{rows} to {clean(args.output)}", file=sys.stderr)
    return 0


class _Writes(Protocol):
    def write(self, chunk: bytes, /) -> Any: ...


class _Shown:
    """Writer of JSON lines that escapes terminal control characters."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, chunk: bytes) -> None:
        self._out.write(harmless_json(self._decoder.decode(chunk)).encode())


def _output(name: str | None) -> contextlib.AbstractContextManager[_Writes]:
    if name is not None:
        return whole_file(name)
    out = sys.stdout.buffer
    return contextlib.nullcontext(_Shown(out) if sys.stdout.isatty() else out)


class _Progress:
    """Progress bar on standard error; only on a terminal."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._shown = sys.stderr.isatty()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """Count a chunk and redraw the bar."""
        self._bytes += len(chunk)
        self._counting.add(chunk)
        self._draw()

    def end(self) -> str:
        """Finish the bar and return the totals as text."""
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


COMMAND: Final = Command("export", BASE_COMMANDS["export"].help, _configure, _run)
