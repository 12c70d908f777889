"""The reading end of a spool: whole lines of one emitter in order, and how far they are settled.

The format is described in `_spool`. A reader is used by one thread at a time.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tracereel._memory_segments import MemorySegments
from tracereel._spool import (
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
"""A line longer than this was not written by us; it is skipped."""
MAX_REJECTED_BYTES: Final = 16 * 1024 * 1024
"""Refused events kept aside per emitter; more are counted only."""
MAX_REJECTED_TOTAL: Final = 64 * 1024 * 1024
"""Refused events kept aside by all emitters of a destination; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole lines (newlines included) that follow the offset."""

    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class Remains:
    """What the files of a dead emitter say of it once they are shipped."""

    emitter_id: str
    recorded: int
    rejected: int
    service: str | None
    pid: int | None


class _Signed(msgspec.Struct):
    """What a line says of its emitter."""

    emitter_seq: int = 0
    service: str | None = None


class Outbox:
    """What one emitter still has to send. `lock` is held by us when the emitter is dead.

    `memory` are those segments of a living one that could not be put on disk.
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
    ) -> Batch | None:
        """The next lines, or nothing if there is none (yet)."""
        while True:
            lines = self._lines_here(max_bytes, max_lines)
            if lines:
                return Batch(lines)
            following = self._next_segment()
            if following is None:
                return None
            # The next segment exists, so this one is final: what came in between is seen now.
            lines = self._lines_here(max_bytes, max_lines)
            if lines:
                return Batch(lines)
            self._move_to(following)

    def settle(self, lines: list[bytes]) -> None:
        """The collector has answered for these lines, the first of the batch."""
        self._offset += sum(map(len, lines))
        self._last_line = lines[-1]
        self._save_offset()

    def set_aside(self, line: bytes, reason: str) -> bool:
        """Keep a refused line for people; false when there is no room."""
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
        """Whole lines not settled yet."""
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
        """What is known of a dead emitter; to be asked before its files are removed."""
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
        """The last whole line of segments that were settled and not removed."""
        for number in reversed(self._segments()):
            with self._path(number).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                for reach in (MAX_BATCH_BYTES, MAX_LINE_BYTES):
                    file.seek(max(0, size - reach))
                    whole = file.read(reach).split(b"\n")[:-1]
                    # The first may have lost its beginning.
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
        """A dead emitter has nothing left: remove its files and give its lock up."""
        remove_files(self._directory, self.emitter_id)
        self.release(remove=True)

    def release(self, *, remove: bool = False) -> None:
        """Give the lock up, if it was taken."""
        if self._lock is not None:
            self._lock.release(remove=remove)
            self._lock = None

    def disown(self) -> None:
        """In a forked child: the lock is the parent's."""
        if self._lock is not None:
            self._lock.disown()
            self._lock = None

    def _lines_here(self, max_bytes: int, max_lines: int) -> list[bytes]:
        data = self._data_here(max_bytes)
        if len(data) == max_bytes and b"\n" not in data:
            data = self._data_here(MAX_LINE_BYTES)
        whole = data.split(b"\n")[:-1]
        return [line + b"\n" for line in whole[:max_lines]]

    def _data_here(self, size: int) -> bytes:
        if self._memory is not None:
            data = self._memory.read(self._segment, size, self._offset)
            if data is not None or self._memory.only:
                return data or b""
        # Only a file that is not there has nothing to say: any other trouble must not pass for that,
        # because an emitter with nothing left is removed.
        try:
            file = os.open(self._path(self._segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(file, size, self._offset)
        finally:
            os.close(file)

    def count_in_memory(self) -> int:
        """Those lines not settled yet that would be lost with the process."""
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
        for name in os.listdir(self._directory):  # noqa: PTH208 - names are all that is needed
            middle = name.removeprefix(prefix).removesuffix(SEGMENT_SUFFIX)
            if middle.isdigit() and name == f"{prefix}{middle}{SEGMENT_SUFFIX}":
                numbers.append(int(middle))
        return sorted(numbers)

    def _next_segment(self) -> int | None:
        return next((number for number in self._segments() if number > self._segment), None)

    def _move_to(self, following: int) -> None:
        """Write the pointer down, then unlink: after a crash between them, nothing is lost."""
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
        """Best effort: where it fails, events are sent twice and dropped by the collector."""
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
    """Keep the newest refused events of all emitters together within bounds."""
    files = []
    for path in directory.glob(f"*{REJECTED_SUFFIX}"):
        try:
            files.append((path.stat().st_mtime, path.stat().st_size, path))
        except OSError:  # removed by another process meanwhile
            continue
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > MAX_REJECTED_TOTAL:
            path.unlink(missing_ok=True)


def dead_emitters(directory: Path) -> Iterator[Outbox]:
    """The outboxes of emitters whose process is gone, oldest first, each with its lock held.

    The locks are taken as the iteration goes: whoever stops holds no more than it has seen.
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
            yield Outbox(directory, name.removesuffix(LOCK_SUFFIX), lock=lock)
