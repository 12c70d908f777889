"""Fleet files: the tapes of many runs in one compressed file.

A file is NDJSON in gzip. The first line is the header (`{"tracereel_fleet": 1, …}`), then there is
one line per run (`{"trace_id", "parts": […]}`, the parts as in a tape), and the last line counts the
runs (`{"runs": N}`), so that a cut file is noticed. Everything in it was written by senders: lines,
runs and the total size are bounded, and parts are parsed by the process that replays the run.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tracereel.client.exports import whole_file
from tracereel.errors import TracereelError
from tracereel.tape.format import Tape, TapeError, parse

VERSION: Final = 1
MAX_RUNS: Final = 100_000
MAX_LINE: Final = 256 * 1024 * 1024
"""Longest line: a tape of 64 MiB, escaped and in parts."""
MAX_BYTES: Final = 16 * 1024**3
"""Largest file, uncompressed."""
_LEVEL: Final = 3
_DAMAGE: Final = (OSError, EOFError, zlib.error)


class FleetFileError(TracereelError):
    """A fleet file is missing, damaged or not one."""


class FleetRun(msgspec.Struct, frozen=True):
    """Run of a fleet file, with its tape as it was stored."""

    trace_id: str
    parts: msgspec.Raw

    @classmethod
    def of(cls, tape: Tape) -> "FleetRun":
        """Return a tape as a run of a fleet file."""
        parts = [msgspec.Raw(line) for line in tape.lines()]
        return cls(tape.trace_id, msgspec.Raw(msgspec.json.encode(parts)))

    def job(self) -> bytes:
        """Return the run as a line."""
        return msgspec.json.encode(self)

    def tape(self) -> Tape:
        """Return the tape.

        Raises:
            TapeError: it is damaged.
        """
        try:
            parts = msgspec.json.decode(self.parts, type=list[Any])
        except msgspec.DecodeError as error:
            raise TapeError(f"the tape of {self.trace_id} is damaged: {error}") from error
        return parse(parts, where=self.trace_id)


class _Header(msgspec.Struct, kw_only=True):
    tracereel_fleet: int
    selection: dict[str, Any] = {}


class _Footer(msgspec.Struct):
    runs: int


class FleetWriter:
    """Writer of a fleet file."""

    def __init__(self, lines: gzip.GzipFile) -> None:
        self._lines = lines
        self.runs = 0
        self.size = 0
        """Bytes written, uncompressed."""

    @property
    def full(self) -> bool:
        """Whether no further run fits."""
        return self.runs >= MAX_RUNS or self.size >= MAX_BYTES // 2

    def add(self, trace_id: str, parts: Iterable[Mapping[str, Any] | msgspec.Raw]) -> None:
        """Add a run."""
        self.write({"trace_id": trace_id, "parts": list(parts)})
        self.runs += 1

    def write(self, document: Mapping[str, Any]) -> None:
        """Write one line."""
        line = msgspec.json.encode(document) + b"\n"
        if len(line) > MAX_LINE:
            raise FleetFileError(f"a tape has {len(line)} bytes; at most {MAX_LINE} fit")
        self.size += len(line)
        self._lines.write(line)


@contextmanager
def writing(path: str | Path, selection: Mapping[str, Any]) -> Iterator[FleetWriter]:
    """Write a fleet file that only its owner can read; it appears when it is complete."""
    with (
        whole_file(path, private=True) as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as lines,
    ):
        writer = FleetWriter(lines)
        writer.write({"tracereel_fleet": VERSION, "selection": selection})
        yield writer
        writer.write({"runs": writer.runs})


class FleetFile:
    """Fleet file that is read run by run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.total = self._checked()

    def _checked(self) -> int:
        """Return the number of runs; read the file once, so that a cut one is refused early."""
        return sum(1 for _ in self.runs())

    def runs(self) -> Iterator[FleetRun]:
        """Yield the runs.

        Raises:
            FleetFileError: the file is missing, cut, too large or no fleet file.
        """
        lines = self._lines()
        self._header(next(lines, b""))
        count = 0
        for line in lines:
            try:
                run = msgspec.json.decode(line, type=FleetRun)
            except msgspec.DecodeError:
                self._end(line, count)
                return
            count += 1
            if count > MAX_RUNS:
                raise FleetFileError(f"{self.path} has more than {MAX_RUNS} runs")
            yield run
        raise FleetFileError(f"{self.path} is cut behind run {count}; pull it again")

    def _lines(self) -> Iterator[bytes]:
        size = 0
        try:
            with gzip.open(self.path, "rb") as file:
                while line := file.readline(MAX_LINE + 1):
                    size += len(line)
                    if len(line) > MAX_LINE or size > MAX_BYTES:
                        raise FleetFileError(
                            f"{self.path} is too large: at most {MAX_LINE} bytes a run and"
                            f" {MAX_BYTES} in all"
                        )
                    yield line
        except _DAMAGE as error:
            why = getattr(error, "strerror", None) or error
            raise FleetFileError(f"{self.path} cannot be read: {why}") from error

    def _header(self, line: bytes) -> None:
        try:
            header = msgspec.json.decode(line, type=_Header)
        except msgspec.DecodeError:
            raise FleetFileError(
                f"{self.path} is no fleet file; `tracereel fleet pull` makes one"
            ) from None
        if header.tracereel_fleet != VERSION:
            raise FleetFileError(
                f"{self.path} has version {header.tracereel_fleet}; expected {VERSION}"
            )

    def _end(self, line: bytes, count: int) -> None:
        try:
            footer = msgspec.json.decode(line, type=_Footer)
        except msgspec.DecodeError as error:
            raise FleetFileError(f"{self.path} is damaged behind run {count}: {error}") from error
        if footer.runs != count:
            raise FleetFileError(f"{self.path} has {count} runs, and says {footer.runs}")
