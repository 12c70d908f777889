"""Rows of an export: lines, files that appear when complete, and counts."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal

from tracereel.client.errors import UnexpectedAnswerError
from tracereel.client.transport import ResponseStream

Progress = Callable[[int, int | None], None]
"""Callback with the rows done (estimated for Parquet) and the total, if known."""
Table = Literal["events", "spans", "scores"]
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an exported row, as in the collector."""


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of chunked NDJSON; the last one may have no newline."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line)).decode("utf-8", "replace")
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            raise UnexpectedAnswerError(f"a line of more than {MAX_LINE_BYTES} bytes came")
    if size:
        yield b"".join(parts).decode("utf-8", "replace")


@contextmanager
def whole_file(path: str | Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when complete.

    Args:
        private: whether only its owner may read it.
    """
    target = Path(path)
    part = target.with_name(f"{target.name}.part")
    mode = 0o600 if private else 0o666
    try:
        part.unlink(missing_ok=True)  # it would keep its permissions
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _number(stream: ResponseStream, header: str) -> int | None:
    text = stream.headers.get(header, "")
    return int(text) if text.isascii() and text.isdecimal() else None


class RowCounter:
    """Row counter of an export: exact by lines, or estimated by bytes for Parquet."""

    def __init__(self, total: int | None, expected_bytes: int | None) -> None:
        self.total = total
        self.rows = 0
        self._expected = expected_bytes
        self.size = 0
        self._in_line = False

    @classmethod
    def of(cls, stream: ResponseStream, kind: str) -> "RowCounter":
        """Create a counter from the headers of a response."""
        estimated = _number(stream, "x-estimated-bytes") or 1
        return cls(_number(stream, "x-total-count"), None if kind == "ndjson" else estimated)

    def add(self, chunk: bytes) -> None:
        """Count a received chunk."""
        self.size += len(chunk)
        if self._expected is None:
            self.rows += chunk.count(b"\n")
            self._in_line = not chunk.endswith(b"\n") if chunk else self._in_line
        else:
            share = min(1.0, self.size / self._expected)
            self.rows = int((self.total or 0) * share)

    def end(self) -> int:
        """Return the final number of rows."""
        if self._expected is not None:
            self.rows = self.total or 0
        return self.rows + self._in_line
