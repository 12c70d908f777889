"""Reader of one emitter's spool: returns complete lines in order and stores the offset.

The format is described in `spool`. A reader is used by one thread at a time.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tracereel._export.memory_segments import MemorySegments
from tracereel._export.spool import (
    LOCK_SUFFIX,
    OFFSET_SUFFIX,
    REJECTED_SUFFIX,
    SEGMENT_SUFFIX,
    EmitterLock,
    remove_files,
    segment_path,
)

MAX_BATCH_BYTES: Final = 5 * 512 * 1024
MAX_BATCH_LINES: Final = 2_500
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Longest line that is read; a longer one was not written by the SDK."""
MAX_REJECTED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of refused events kept per emitter; others are only counted."""
MAX_REJECTED_TOTAL: Final = 64 * 1024 * 1024
"""Bytes of refused events kept per destination; the oldest files are removed first."""


@dataclass(frozen=True, slots=True)
class SpoolBatch:
    """Complete lines (with newlines) after the offset."""

    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class Remains:
    """Final counters of a dead emitter, read from its files."""

    emitter_id: str
    recorded: int
    rejected: int
    service: str | None
    pid: int | None


class _Signed(msgspec.Struct):
    """Fields of a line that describe its emitter."""

    emitter_seq: int = 0
    service: str | None = None


class SpoolReader:
    """Unsent lines of one emitter.

    `lock` is the held lock of a dead emitter. `memory` holds the in-memory segments of a live one.
    """

    def __init__(
        self,
        directory: Path,
        emitter_id: str,
        *,
        lock: EmitterLock | None = None,
        memory: MemorySegments | None = None,
        on_unlink: Callable[[int], None] = lambda _size: None,
    ) -> None:
        self.emitter_id = emitter_id
        self._directory = directory
        self._lock = lock
        self._memory = memory
        self._on_unlink = on_unlink
        self._segment, self._offset = self._load_offset()
        self._last_line = b""

    def read(
        self, *, max_bytes: int = MAX_BATCH_BYTES, max_lines: int = MAX_BATCH_LINES
    ) -> SpoolBatch | None:
        """Return the next lines, or None if there are none yet."""
        while True:
            lines = self._lines_here(max_bytes, max_lines)
            if lines:
                return SpoolBatch(lines)
            following = self._next_segment()
            if following is None:
                return None
            # The next segment exists, so this one is final: read lines that were added meanwhile.
            lines = self._lines_here(max_bytes, max_lines)
            if lines:
                return SpoolBatch(lines)
            self._move_to(following)

    def settle(self, lines: list[bytes]) -> None:
        """Advance the offset past lines that the collector has processed."""
        self._offset += sum(map(len, lines))
        self._last_line = lines[-1]
        self._save_offset()

    def set_aside(self, line: bytes, reason: str) -> bool:
        """Keep a refused line for inspection; return False if there is no room."""
        path = self._directory / f"{self.emitter_id}{REJECTED_SUFFIX}"
        kept = {"reason": reason, "line": line.decode("utf-8", "replace").rstrip("\n")}
        record = msgspec.json.encode(kept) + b"\n"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            if os.fstat(descriptor).st_size + len(record) > MAX_REJECTED_BYTES:
                return False
            os.write(descriptor, record)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def count(self) -> int:
        """Return the number of complete lines that are not settled."""
        total = 0
        for number in self._segments():
            if number < self._segment:
                continue
            skip = self._offset if number == self._segment else 0
            try:
                with segment_path(self._directory, self.emitter_id, number).open("rb") as file:
                    file.seek(skip)
                    while chunk := file.read(MAX_BATCH_BYTES):
                        total += chunk.count(b"\n")
            except OSError:
                continue
        return total

    def remains(self) -> Remains:
        """Return the final counters of a dead emitter; call before its files are removed."""
        last = self._last_line or self._last_on_disk()
        try:
            signed = msgspec.json.decode(last, type=_Signed)
        except (msgspec.DecodeError, ValueError, RecursionError):
            signed = _Signed()
        try:
            pid = int(self._lock.path.read_text()) if self._lock is not None else None
        except (OSError, ValueError):
            pid = None
        return Remains(
            self.emitter_id, signed.emitter_seq, self._count_rejected(), signed.service, pid
        )

    def _last_on_disk(self) -> bytes:
        """Return the last complete line of settled segments that still exist."""
        for number in reversed(self._segments()):
            with self._path(number).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                for reach in (MAX_BATCH_BYTES, MAX_LINE_BYTES):
                    file.seek(max(0, size - reach))
                    whole = file.read(reach).split(b"\n")[:-1]
                    # The first line may be cut off at its start.
                    if len(whole) > 1 or (whole and size <= reach):
                        return whole[-1]
        return b""

    def _count_rejected(self) -> int:
        path = self._directory / f"{self.emitter_id}{REJECTED_SUFFIX}"
        try:
            return path.read_bytes().count(b"\n")
        except OSError:
            return 0

    def finish(self) -> None:
        """Remove the files of a fully shipped dead emitter and release its lock."""
        remove_files(self._directory, self.emitter_id)
        self.release(remove=True)

    def release(self, *, remove: bool = False) -> None:
        """Release the lock, if held."""
        if self._lock is not None:
            self._lock.release(remove=remove)
            self._lock = None

    def disown(self) -> None:
        """Close the lock's descriptor in a forked child; the parent keeps the lock."""
        if self._lock is not None:
            self._lock.disown()
            self._lock = None

    def _lines_here(self, max_bytes: int, max_lines: int) -> list[bytes]:
        data = self._data_here(max_bytes)
        if len(data) == max_bytes and b"\n" not in data:
            # One event is longer than a batch: it is sent alone.
            data, max_lines = self._data_here(MAX_LINE_BYTES), 1
        whole = data.split(b"\n")[:-1]
        return [line + b"\n" for line in whole[:max_lines]]

    def _data_here(self, size: int) -> bytes:
        if self._memory is not None:
            data = self._memory.read(self._segment, size, self._offset)
            if data is not None or self._memory.only:
                return data or b""
        # Only a missing file counts as empty. Other errors must propagate because an emitter
        # without lines is removed.
        try:
            file = os.open(self._path(self._segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(file, size, self._offset)
        finally:
            os.close(file)

    def count_in_memory(self) -> int:
        """Return the number of unsettled lines that exist only in memory."""
        memory, total = self._memory, 0
        if memory is None:
            return 0
        for number in memory.numbers():
            if number >= self._segment:
                skip = self._offset if number == self._segment else 0
                while data := memory.read(number, MAX_BATCH_BYTES, skip):
                    total += data.count(b"\n")
                    skip += len(data)
        return total

    def _segments(self) -> list[int]:
        numbers = self._memory.numbers() if self._memory is not None else []
        if self._memory is not None and self._memory.only:
            return numbers
        prefix = f"{self.emitter_id}."
        for name in os.listdir(self._directory):  # noqa: PTH208 - only names are needed
            middle = name.removeprefix(prefix).removesuffix(SEGMENT_SUFFIX)
            if middle.isdigit() and name == f"{prefix}{middle}{SEGMENT_SUFFIX}":
                numbers.append(int(middle))
        return sorted(numbers)

    def _next_segment(self) -> int | None:
        return next((number for number in self._segments() if number > self._segment), None)

    def _move_to(self, following: int) -> None:
        """Save the offset before unlinking, so that a crash in between loses nothing."""
        done = [number for number in self._segments() if number < following]
        self._segment, self._offset = following, 0
        self._save_offset()
        for number in done:
            size = self._memory.remove(number) if self._memory is not None else None
            if size is None:
                path = self._path(number)
                try:
                    size = path.stat().st_size
                    path.unlink()
                except OSError:
                    continue
            self._on_unlink(size)

    def _path(self, number: int) -> Path:
        return segment_path(self._directory, self.emitter_id, number)

    def _load_offset(self) -> tuple[int, int]:
        try:
            words = (self._directory / f"{self.emitter_id}{OFFSET_SUFFIX}").read_text().split()
            segment, offset = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            segment, offset = 0, 0
        return (max(segment, 0), max(offset, 0))

    def _save_offset(self) -> None:
        """Save the offset, best effort; on failure events are sent twice and deduplicated."""
        path = self._directory / f"{self.emitter_id}{OFFSET_SUFFIX}"
        temporary = path.with_suffix(".tmp")
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(descriptor, f"{self._segment} {self._offset}\n".encode())
            finally:
                os.close(descriptor)
            temporary.replace(path)
        except OSError:
            pass


def trim_rejected(directory: Path) -> None:
    """Remove the oldest refused events of all emitters beyond `MAX_REJECTED_TOTAL`."""
    files = []
    for path in directory.glob(f"*{REJECTED_SUFFIX}"):
        try:
            files.append((path.stat().st_mtime, path.stat().st_size, path))
        except OSError:  # removed by another process
            continue
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > MAX_REJECTED_TOTAL:
            path.unlink(missing_ok=True)


def dead_emitters(directory: Path) -> Iterator[SpoolReader]:
    """Yield a reader for each dead emitter, oldest first, with its lock held.

    Locks are taken during the iteration, so that stopping early leaves the rest unlocked.
    """
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return
    for name in sorted(names):
        if not name.endswith(LOCK_SUFFIX):
            continue
        try:
            lock = EmitterLock.take(directory / name, create=False)
        except OSError:
            continue
        if lock is not None:
            yield SpoolReader(directory, name.removesuffix(LOCK_SUFFIX), lock=lock)
