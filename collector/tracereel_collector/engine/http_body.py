"""Request bodies, received completely before execution: in memory, or in a file if large.

A statement or an insert must not start with half of a body.
The file is unnamed, so that a killed process leaves none behind.
"""

import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import IO

from tracereel_collector.engine.failures import Code, QueryError

_PIECE = 1024 * 1024
_PER_BODY = 16 * 1024 * 1024


class MemoryBudget:
    """Limit of the bytes that all bodies together keep in memory."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Take bytes; return False if too few are left."""
        with self._lock:
            if count > self._left:
                return False
            self._left -= count
            return True

    def give(self, count: int) -> None:
        """Return bytes."""
        with self._lock:
            self._left += count


class RequestBody:
    """Plain bytes of one request."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self._held = 0
        self._file: IO[bytes] | None = None
        self.size = 0

    @classmethod
    def receive(cls, chunks: Iterable[bytes], budget: MemoryBudget, *, limit: int) -> "RequestBody":
        """Receive a whole body; raise QueryError(223) beyond `limit` bytes."""
        body = cls(budget)
        try:
            for chunk in chunks:
                body._append(chunk)
                if body.size > limit:
                    raise QueryError(
                        Code.QUERY_IS_TOO_LARGE,
                        f"The body is over {limit} bytes after decompression; send less at once.",
                    )
        except BaseException:
            body.close()
            raise
        return body

    def head(self, count: int) -> bytes:
        """Return the first `count` bytes."""
        if len(self._pieces) == 1 and self._file is None and self.size <= count:
            return self._pieces[0]
        got = bytearray()
        for piece in self.pieces(0):
            got += piece[: count - len(got)]
            if len(got) >= count:
                break
        return bytes(got)

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from `start` on, in pieces of at most about 1 MiB."""
        for piece in self._all_pieces():
            if start < len(piece):
                yield piece[start:]
            start = max(start - len(piece), 0)

    def close(self) -> None:
        """Free memory and file."""
        self._pieces.clear()
        self._budget.give(self._held)
        self._held = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self._file is None:
            if self._held + len(chunk) <= _PER_BODY and self._budget.take(len(chunk)):
                self._held += len(chunk)
                self._pieces.append(chunk)
                return
            self._file = tempfile.TemporaryFile(dir=".", buffering=_PIECE)  # noqa: SIM115
        self._file.write(chunk)

    def _all_pieces(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._file is not None:
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                yield piece
