"""The spool: where events wait on disk until the collector has them.

Layout, one directory per destination (a hash of endpoint and key), mode 0700, files 0600:

    <spool_dir>/<destination>/
        <emitter>.lock             held with flock while the process lives; names its pid
        <emitter>.<n>.ndjson       segments, n = 00000001, 00000002, …; append-only
        <emitter>.offset           "<n> <bytes>\\n": everything before it has been settled
        <emitter>.rejected.ndjson  what the collector refused, each with the reason

An emitter is one process (a forked child is another). Its events are numbered `emitter_seq` = 1,
2, … without gaps, in file order: number and write happen under one lock, and a number is
spent only by a write that succeeded.

- One event is one line, written by a single `write` to a file opened with O_APPEND, not synced:
  the kernel keeps it when the process is killed, not when the power fails.
- A line without its newline is a write that was cut short. The writer truncates it, or starts a
  new segment; readers skip it once a later segment exists or the emitter is dead.
- A segment is closed at 8 MiB (less for a small spool), never written again once the next exists.
- The offset is replaced by rename after the collector has answered, before segments behind it are
  unlinked. A missing or damaged offset file means the start of the oldest segment: events may be
  sent twice, and the collector drops the second by `emitter_id` and `emitter_seq`.
- A free lock means that its emitter is dead: whoever takes the lock may ship what is left, then
  removes the files, the lock last. Having taken a lock, check that the path still names it.
- All files of the directory together stay below a limit in bytes; above it new events are refused
  before they are numbered.
- While the directory cannot be used (read-only, not ours, full), segments are begun in memory, within
  a bound; they are sent like the others and lost with the process. The disk is tried again.
"""

import errno
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tracereel import _native, _values
from tracereel._clock import sortable_id
from tracereel._context import Trace
from tracereel._memory_segments import SEGMENT_BYTES as MEMORY_SEGMENT_BYTES
from tracereel._memory_segments import MemorySegments

SEGMENT_BYTES: Final = 8 * 1024 * 1024
SEGMENT_SUFFIX: Final = ".ndjson"
LOCK_SUFFIX: Final = ".lock"
OFFSET_SUFFIX: Final = ".offset"
REJECTED_SUFFIX: Final = ".rejected.ndjson"
SPOOL_FULL: Final = "spool_full"
SPOOL_ERROR: Final = "spool_error"
REOPEN_AFTER: Final = 1.0
"""Seconds before a spool that could not be opened is tried again."""

_LOCK_ATTEMPTS: Final = 5
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


Draft = tuple[list[bytes], Trace | None, bool | None]
"""Events of a trace ready for their numbers: their JSON, and whether the last of them ends the run.

Null: it does if the run is closed already, in which case the count is told anew.
"""
Entry = tuple[Trace | None, bool, int, int, int, int]
"""What the books say once a line that is being written has reached the file: its trace, whether it
ends the run, the number of the event, the size of the segment, events and bytes recorded. A plain
tuple: one is made per event."""


class EmitterLock:
    """The lock file of one emitter, held."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, *, create: bool) -> "EmitterLock | None":
        """Take a lock, or nothing if another process holds it or it is gone."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            descriptor = os.open(path, flags, _FILE_MODE)
        except (FileExistsError, FileNotFoundError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between open and flock another process may have finished this emitter and unlinked it.
            if path.stat().st_ino != os.fstat(descriptor).st_ino:
                raise FileNotFoundError(path)
            if create:
                os.write(descriptor, f"{os.getpid()}\n".encode())
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self, *, remove: bool) -> None:
        """Give the lock up; remove its file first if the emitter is finished."""
        if remove:
            self.path.unlink(missing_ok=True)
        self.disown()

    def disown(self) -> None:
        """Close the descriptor only: in a forked child the lock stays with the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Spool:
    """The writing end, one per recorder. Opened by the first event: idle processes leave no file.

    `append` never raises for the disk's sake; it answers with the reason why an event was dropped.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int,
        segment_bytes: int = SEGMENT_BYTES,
        memory_bytes: int = 0,
        on_late_drop: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._memory_bytes = memory_bytes
        self._segment_bytes = min(segment_bytes, max(max_bytes // 4, 1))
        self._disk_segment_bytes = self._segment_bytes
        self._lock = _native.RLock()
        self._writing = False
        self._reentered: deque[Draft] = deque()
        self._on_late_drop = on_late_drop
        self.trouble: OSError | None = None
        """Why events are in memory; to be told by who may take the time."""
        self._foreign_bytes = 0
        self._forget_emitter()
        self.recorded = 0
        """Events written since this spool was made, whatever the emitter."""
        self.recorded_bytes = 0

    def _forget_emitter(self) -> None:
        self.emitter_id: str | None = None
        self.memory = MemorySegments()
        """Segments that could not be put on disk."""
        self._in_memory = False
        self._signature = ""
        """What every line goes on with, up to its number."""
        self._emitter_lock: EmitterLock | None = None
        self._file = -1
        self._segment = 0
        self._segment_size = 0
        self._closed_bytes = 0
        self._sequence = 0
        self._failed_at = -REOPEN_AFTER
        self._inflight: Entry | None = None
        self.told_again = 0
        """How often an event was added to a run that was closed, and closed it anew."""

    @property
    def used_bytes(self) -> int:
        """Bytes of the destination's directory, as last seen for other emitters, exact for ours."""
        return self._foreign_bytes + self._closed_bytes + self._segment_size

    @property
    def sequence(self) -> int:
        """The highest number this emitter has given out."""
        return self._sequence

    def append(
        self, event: dict[str, Any], trace: Trace | None, *, closes_run: bool | None
    ) -> str | None:
        """Number and write an event; null when written, else the reason why it was dropped."""
        return self._append(([_values.encode(event)], trace, closes_run))

    def append_all(
        self, bodies: list[bytes], trace: Trace | None, *, closes_run: bool | None
    ) -> str | None:
        """The same for events, as JSON, that follow each other, by one write: all of them, or none."""
        return self._append((bodies, trace, closes_run))

    def _append(self, draft: Draft) -> str | None:
        with self._lock:
            if self._writing:
                # A signal handler or finaliser came in while this thread wrote: it goes after.
                self._reentered.append(draft)
                return None
            self._writing = True
            try:
                reason = self._write(*draft)
                while self._reentered:
                    follows = self._reentered.popleft()
                    if (late := self._write(*follows)) is not None:
                        for _ in follows[0]:
                            self._on_late_drop(late)
            except BaseException:
                self._settle_interrupted()
                raise
            finally:
                self._writing = False
        return reason

    def _write(
        self, bodies: list[bytes], trace: Trace | None, closes_run: bool | None
    ) -> str | None:
        count = len(bodies)
        coming = len(bodies[0]) if count == 1 else sum(map(len, bodies))
        filled = self._segment_size
        if self._foreign_bytes + self._closed_bytes + filled + coming > self._max_bytes:
            return SPOOL_FULL
        if self._file < 0 or filled + coming > self._segment_bytes:
            try:
                self._ensure_open(coming)
            except OSError:
                self._failed_at = time.monotonic()
                return SPOOL_ERROR
            if self._file < 0:
                return SPOOL_ERROR
        again = closes_run is None and trace is not None and trace.told
        closes = again or closes_run is True
        lines = self._lines(bodies, trace, closes)
        size = len(lines)
        entry = self._inflight = (
            trace,
            closes,
            self._sequence + count,
            self._segment_size + size,
            self.recorded + count,
            self.recorded_bytes + size,
        )
        try:
            written = os.write(self._file, lines)
        except OSError:
            written = -1
        if written == size:
            self._book(entry)
            self._inflight = None
            self.told_again += again
            return None
        self._mend_tail()
        self._inflight = None
        return SPOOL_ERROR

    def _book(self, entry: Entry) -> None:
        """Count a line that is on disk; absolute values, so that doing it twice does no harm."""
        trace, closes, sequence, self._segment_size, self.recorded, self.recorded_bytes = entry
        if trace is not None and sequence > self._sequence:
            trace.recorded += sequence - self._sequence
            trace.told = closes
        self._sequence = sequence

    def _settle_interrupted(self) -> None:
        """A signal handler raised in the middle of a write: find out what reached the file."""
        entry, self._inflight = self._inflight, None
        if entry is None or self._file < 0:
            return
        size = os.fstat(self._file).st_size
        if size == entry[3]:
            self._book(entry)
        elif size != self._segment_size:
            # Part of a line: readers ignore it at the end of a segment, so this one ends here.
            self._close_segment()

    def _lines(self, bodies: list[bytes], trace: Trace | None, closes_run: bool) -> bytes:
        """Splice in what only the moment of writing knows: cheaper than encoding under the lock."""
        number, signature, last, place = self._sequence, self._signature, "}", 0
        if trace is not None:
            if trace.emitter_id != self.emitter_id:
                # A trace that lives on after a fork or a new configuration is counted anew.
                trace.emitter_id = self.emitter_id
                trace.recorded = 0
            place = trace.recorded
            if closes_run:
                last = f',"trace_event_count":{place + len(bodies)}}}'
        pieces: list[bytes] = []
        for body in bodies:
            number += 1
            told = f"{signature}{number}"
            if trace is not None:
                place += 1
                told = f'{told},"trace_seq":{place}'
            # A body ends with its brace.
            pieces += (body[:-1], told.encode(), b"}\n")
        pieces[-1] = f"{last}\n".encode()
        return b"".join(pieces)

    def _sign(self, emitter_id: str) -> None:
        self._signature = f',"emitter_id":"{emitter_id}","emitter_seq":'
        self.emitter_id = emitter_id

    def _mend_tail(self) -> None:
        """After a write that failed or was short: cut the segment back, or go on in a new one."""
        try:
            os.ftruncate(self._file, self._segment_size)
        except OSError:
            self._close_segment()
        if self._memory_bytes and not self._in_memory:
            # The disk is full or sick: what comes next goes to memory for a while.
            if self._file >= 0:
                self._close_segment()
            self._failed_at = time.monotonic()

    def _ensure_open(self, coming: int) -> None:
        if self._segment_size > 0 and self._segment_size + coming > self._segment_bytes:
            self._close_segment()
        if self._file >= 0:
            return
        if not self._memory_bytes:
            self._open_on_disk()
        elif time.monotonic() - self._failed_at < REOPEN_AFTER:
            self._open_in_memory(coming)
        else:
            try:
                self._open_on_disk()
            except OSError as error:
                self._failed_at = time.monotonic()
                self._open_in_memory(coming, error)

    def _open_in_memory(self, coming: int, trouble: OSError | None = None) -> None:
        """Begin a segment in memory, if there is room; where there is none, nothing is open."""
        # Room for a whole segment, so that nothing has to be looked at while it fills.
        if self.memory.size + max(coming, MEMORY_SEGMENT_BYTES) > self._memory_bytes:
            return
        self._file = self.memory.open(self._segment + 1)
        self._segment += 1
        self._segment_size = 0
        self._segment_bytes = min(MEMORY_SEGMENT_BYTES, self._disk_segment_bytes)
        self._in_memory = True
        if self.emitter_id is None:
            emitter_id = sortable_id("emt")
            self._sign(emitter_id)
        if trouble is not None:
            self.trouble = trouble

    def _open_on_disk(self) -> None:
        if self._emitter_lock is None:
            if time.monotonic() - self._failed_at < REOPEN_AFTER:
                return
            self._open_emitter()
        self._segment += 1
        path = segment_path(self.directory, str(self.emitter_id), self._segment)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, _FILE_MODE)
        self._segment_size = 0
        self.memory.only = False

    def _open_emitter(self) -> None:
        self.directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        for _attempt in range(_LOCK_ATTEMPTS):
            emitter_id = self.emitter_id or sortable_id("emt")
            lock = EmitterLock.take(self.directory / f"{emitter_id}{LOCK_SUFFIX}", create=True)
            # Null when a shipper took our brand-new lock for that of a dead process: another name.
            if lock is not None:
                self._emitter_lock = lock
                self._sign(emitter_id)
                self._foreign_bytes = self._measure_others()
                return
        raise BlockingIOError(errno.EAGAIN, "no lock to be had", str(self.directory))

    def _close_segment(self) -> None:
        # Forgotten before it is closed: an interruption in between costs a descriptor, not the spool.
        file, self._file = self._file, -1
        self._in_memory = False
        self._segment_bytes = self._disk_segment_bytes
        self._closed_bytes += self._segment_size
        self._segment_size = 0
        os.close(file)

    def released(self, size: int) -> None:
        """A shipped segment of ours is gone from the disk."""
        with self._lock:
            self._closed_bytes = max(0, self._closed_bytes - size)

    def refresh(self) -> None:
        """Look again at what other emitters occupy."""
        try:
            used = self._measure_others()
        except OSError:
            if not self._memory_bytes:
                raise
            used = 0
        with self._lock:
            self._foreign_bytes = used
            if self._in_memory:
                # The next event tries the disk again.
                self._close_segment()

    def _measure_others(self) -> int:
        mine = str(self.emitter_id)
        total = 0
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    # Refused events have a bound of their own: they must not crowd out new ones.
                    if not entry.name.startswith(mine) and not entry.name.endswith(REJECTED_SUFFIX):
                        try:
                            total += entry.stat(follow_symlinks=False).st_size
                        except OSError:  # shipped and unlinked meanwhile
                            continue
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        return total

    def close(self, *, settled: int) -> None:
        """End this emitter: leave its files for a later process, or remove them if all is settled.

        An event that still comes opens a new emitter.
        """
        with self._lock:
            remove = settled >= self.recorded
            emitter_id, lock = self.emitter_id, self._emitter_lock
            if self._file >= 0:
                self._close_segment()
            self.memory.clear()
            # Nobody would send what comes now: it is for a later process, or it is not taken.
            self._memory_bytes = 0
            self._forget_emitter()
            if emitter_id is None or lock is None:
                return
            if remove:
                remove_files(self.directory, emitter_id)
            lock.release(remove=remove)

    def disown(self) -> None:
        """In a forked child: let go of the parent's files without touching them."""
        if self._file >= 0:
            os.close(self._file)
        if self._emitter_lock is not None:
            self._emitter_lock.disown()
        self.memory.disown()
        self._forget_emitter()


def segment_path(directory: Path, emitter_id: str, number: int) -> Path:
    """The file of a segment."""
    return directory / f"{emitter_id}.{number:08d}{SEGMENT_SUFFIX}"


def remove_files(directory: Path, emitter_id: str) -> None:
    """Remove what a finished emitter leaves, except what was refused (for people) and the lock."""
    for path in directory.glob(f"{emitter_id}.*{SEGMENT_SUFFIX}"):
        if not path.name.endswith(REJECTED_SUFFIX):
            path.unlink(missing_ok=True)
    (directory / f"{emitter_id}{OFFSET_SUFFIX}").unlink(missing_ok=True)
