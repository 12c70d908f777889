"""`tracereel export`: write events, spans or scores to a file or a pipe."""

import argparse
import codecs
import contextlib
import sys
from typing import Any, BinaryIO, Protocol

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO_ANSWER, add_window, collector_command, failed
from tracereel.cli.progress import progress
from tracereel.cli.terminal import Terminal, clean, harmless_json
from tracereel.client import Client
from tracereel.client.exports import RowCounter, whole_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="Where to write (default: the standard output)."
    )
    parser.add_argument("--table", choices=("events", "spans", "scores"), default="events")
    parser.add_argument("--format", choices=("ndjson", "parquet"), default="ndjson")
    parser.add_argument("--trace-id", metavar="ID", help="Only this run.")
    parser.add_argument("--agent", metavar="NAME", help="Only records of this agent.")
    add_window(parser)
    connection.add_options(parser)


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Copy the rows of a table to a file or the standard output."""
    del terminal
    shown = args.output is None and sys.stdout.isatty()
    if shown and args.format == "parquet":
        message = "parquet is no text for a terminal; name a file with --output FILE"
        return failed(args.command, message, EXIT_NO_ANSWER)
    try:
        return _copy(args, client, shown=shown)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        message = f"cannot write {args.output or 'the standard output'}: {error.strerror}"
        return failed(args.command, message, EXIT_NO_ANSWER)


def _copy(args: argparse.Namespace, client: Client, *, shown: bool) -> int:
    chosen = (args.trace_id, args.agent, args.since, args.until)
    with (
        client.open_export(args.table, args.format, *chosen) as stream,
        _output(args.output, shown=shown) as out,
        # Rows on a terminal are their own progress.
        contextlib.nullcontext() if shown else progress("exporting") as bar,
    ):
        counter = RowCounter.of(stream, args.format)
        for chunk in stream.chunks():
            out.write(chunk)
            counter.add(chunk)
            if bar is not None:
                bar.update(counter.rows, counter.total)
    if args.output:
        size = f"{counter.size / 1e6:.1f} MB"
        print(f"{counter.end()} rows, {size} to {clean(args.output)}", file=sys.stderr)
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


def _output(name: str | None, *, shown: bool) -> contextlib.AbstractContextManager[_Writes]:
    if name is not None:
        return whole_file(name)
    out = sys.stdout.buffer
    return contextlib.nullcontext(_Shown(out) if shown else out)
