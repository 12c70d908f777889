"""`tracereel dump`: take recorded events, spans or scores out of a collector, into a file or a pipe."""

import argparse
import contextlib
import http.client
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode, urlsplit

from tracereel import config
from tracereel.cli import connection
from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import clean

EXIT_NO_ANSWER: Final = 2
TIMEOUT: Final = 120.0
_CHUNK: Final = 256 * 1024
_BAR: Final = 30


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="Where to write (default: the standard output)."
    )
    parser.add_argument("--table", choices=("events", "spans", "scores"), default="events")
    parser.add_argument("--format", choices=("ndjson", "parquet"), default="ndjson")
    parser.add_argument("--trace-id", metavar="ID", help="Only this run.")
    parser.add_argument("--agent", metavar="NAME", help="Only what this agent did.")
    parser.add_argument("--since", metavar="TIME", help="From this time on, in ISO form.")
    parser.add_argument("--until", metavar="TIME", help="Before this time, in ISO form.")
    connection.add_options(parser)


def _run(args: argparse.Namespace) -> int:
    settings = connection.config_of(args)
    try:
        with _answer(settings, args) as response, _output(args.output) as out:
            total = response.headers.get("x-total-count", "")
            rows = _copy(
                response, out, _Progress(int(total) if total.isdigit() else 0, args.format)
            )
    except (OSError, http.client.HTTPException, _RefusedError) as error:
        print(f"tracereel dump: {clean(error) or type(error).__name__}", file=sys.stderr)
        return EXIT_NO_ANSWER
    if args.output:
        print(f"{rows} to {args.output}", file=sys.stderr)
    return 0


class _RefusedError(Exception):
    """The collector's own words."""


@contextlib.contextmanager
def _answer(
    settings: config.Config, args: argparse.Namespace
) -> Iterator[http.client.HTTPResponse]:
    url = urlsplit(settings.endpoint)
    asked: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("table", "format", "trace_id", "agent", "since", "until")
        if getattr(args, name)
    }
    headers = {"x-api-key": settings.api_key} if settings.api_key else {}
    made = (
        http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=TIMEOUT, context=ssl.create_default_context()
        )
        if url.scheme == "https"
        else http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT)
    )
    with contextlib.closing(made):
        try:
            made.request(
                "GET", f"{url.path.rstrip('/')}/v1/export?{urlencode(asked)}", headers=headers
            )
            response = made.getresponse()
        except OSError as error:
            hint = connection.start_hint(settings.endpoint)
            raise _RefusedError(
                f"nobody answers at {settings.endpoint} ({error}); {hint}"
            ) from error
        if response.status != 200:
            said = response.read(4096).decode("utf-8", "replace")
            raise _RefusedError(f"the collector answered {response.status}: {said}")
        yield response


@contextlib.contextmanager
def _output(name: str | None) -> Iterator[BinaryIO]:
    """The file appears under its name when all of it is there."""
    if name is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(name)
    finally:
        part.unlink(missing_ok=True)


def _copy(response: http.client.HTTPResponse, out: BinaryIO, progress: "_Progress") -> str:
    while chunk := response.read(_CHUNK):
        out.write(chunk)
        progress.add(chunk)
    return progress.end()


class _Progress:
    """A bar on a terminal; a log file is spared it."""

    def __init__(self, total: int, kind: str) -> None:
        self._total = total
        self._counts_lines = kind == "ndjson"
        self._shown = sys.stderr.isatty()
        self._rows = self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """So much more has come."""
        self._bytes += len(chunk)
        self._rows += chunk.count(b"\n") if self._counts_lines else 0
        if self._shown:
            print(f"\r{self._line()}", end="", file=sys.stderr, flush=True)

    def end(self) -> str:
        """What came, in words."""
        if self._shown:
            print(file=sys.stderr)
        rows = self._rows if self._counts_lines else self._total
        return f"{rows} rows, {self._bytes / 1e6:.1f} MB"

    def _line(self) -> str:
        size = f"{self._bytes / 1e6:.1f} MB"
        if not (self._counts_lines and self._total):
            return f"{size} of {self._total} rows"
        share = min(1.0, self._rows / self._total)
        bar = "#" * int(_BAR * share)
        return f"[{bar:<{_BAR}}] {share:4.0%}  {self._rows} of {self._total} rows  {size}"


COMMAND: Final = Command("dump", BASE_COMMANDS["dump"].help, _configure, _run)
