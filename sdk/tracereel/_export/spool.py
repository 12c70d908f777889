r"""Spool: events wait here on disk until the collector acknowledges them.

Layout, one directory per destination (a hash of endpoint and key), mode 0700, files 0600:

    <spool_dir>/<destination>.json  endpoint, tenant and a fingerprint of the key (`destinations`)
    <spool_dir>/<destination>/
        <emitter>.lock             held with flock while the process lives; contains its pid
        <emitter>.<n>.ndjson       segments, n = 00000001, 00000002, …; append-only
        <emitter>.offset           "<n> <bytes>\\n": everything before it is settled
        <emitter>.rejected.ndjson  events that the collector refused, each with the reason

An emitter is one process (a forked child is another). Its events are numbered `emitter_seq` = 1,
2, … without gaps, in file order: numbering and writing happen under one lock, and only a
successful write uses up a number.

- Large content is at the end of its line, after `content_bytes`; the numbers are before it.
- One event is one line, written by a single `write` to a file opened with O_APPEND, not synced:
  it survives a killed process, but not a power failure.
- A line without a newline is a partial write. The writer truncates it, or starts a new segment;
  readers skip it once a later segment exists or the emitter is dead.
- A segment is closed at 8 MiB (less for a small spool), never written again once the next exists.
- The offset is replaced by rename after the collector's response, before segments behind it are
  unlinked. A missing or damaged offset file means the start of the oldest segment: events may be
  sent twice, and the collector deduplicates them by `emitter_id` and `emitter_seq`.
- A free lock means that its emitter is dead. The process that takes the lock may ship the rest,
  then removes the files, the lock last. After taking a lock, check that the path still names it.
- All files of the directory together stay below a limit in bytes; above it new events are refused
  before they are numbered.
- While the directory cannot be used (read-only, wrong owner, full), new segments are kept in
  memory, within a limit; they are sent like the others but lost with the process. The disk is
  tried again.
"""

import errno
import fcntl
import os
import stat
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tracereel._export.memory_segments import SEGMENT_BYTES as MEMORY_SEGMENT_BYTES
from tracereel._export.memory_segments import MemorySegments
from tracereel._export.trace_state import TraceState
from tracereel._redact import values
from tracereel._redact.values import Line
from tracereel._runtime import gevent_compat
from tracereel._runtime.clock import sortable_id

SEGMENT_BYTES: Final = 8 * 1024 * 1024
SEGMENT_SUFFIX: Final = ".ndjson"
LOCK_SUFFIX: Final = ".lock"
OFFSET_SUFFIX: Final = ".offset"
REJECTED_SUFFIX: Final = ".rejected.ndjson"
SPOOL_FULL: Final = "spool_full"
SPOOL_ERROR: Final = "spool_error"
REOPEN_AFTER: Final = 1.0
"""Seconds before opening the spool on disk is tried again."""

_LOCK_ATTEMPTS: Final = 5
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


Draft = tuple[list[Line], TraceState | None, bool | None]
"""Encoded events, their trace, and whether the last one closes the run.

None: rewrite the closing count if the run is already closed.
"""
Entry = tuple[TraceState | None, bool, int, int, int, int]
"""Counters to store once a line has reached the file.

Trace, whether it closes the run, event number, segment size, events and bytes recorded. A plain
tuple because one is created per event.
"""


class EmitterLock:
    """Held lock file of one emitter."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, *, create: bool) -> "EmitterLock | None":
        """Take a lock; None if another process holds it or the file is gone."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            descriptor = os.open(path, flags, _FILE_MODE)
        except (FileExistsError, FileNotFoundError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have finished and unlinked this emitter between open and flock.
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
        """Release the lock; remove its file first if the emitter is finished."""
        if remove:
            self.path.unlink(missing_ok=True)
        self.disown()

    def disown(self) -> None:
        """Close the descriptor only: in a forked child the parent keeps the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Spool:
    """Writer of the spool, one per recorder.

    The first event opens it, so that idle processes create no files. `append` returns disk errors
    as drop reasons and does not raise them.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int,
        segment_bytes: int = SEGMENT_BYTES,
        memory_bytes: int = 0,
        on_late_drop: Callable[[str], None] = lambda _reason: None,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory
        self._on_open = on_open
        self._max_bytes = max_bytes
        self._memory_bytes = memory_bytes
        self._segment_bytes = min(segment_bytes, max(max_bytes // 4, 1))
        self._disk_segment_bytes = self._segment_bytes
        self._lock = gevent_compat.RLock()
        self._writing = False
        self._reentered: deque[Draft] = deque()
        self._on_late_drop = on_late_drop
        self.trouble: OSError | None = None
        """Why events are kept in memory; logged later by the delivery thread."""
        self._foreign_bytes = 0
        self._forget_emitter()
        self.recorded = 0
        """Events written since this spool was created, by all of its emitters."""
        self.recorded_bytes = 0

    def _forget_emitter(self) -> None:
        self.emitter_id: str | None = None
        self.memory = MemorySegments()
        """Segments that could not be written to disk."""
        self._in_memory = False
        self._signature = ""
        """JSON fragment appended to every line, up to the event number."""
        self._emitter_lock: EmitterLock | None = None
        self._file = -1
        self._segment = 0
        self._segment_size = 0
        self._closed_bytes = 0
        self._sequence = 0
        self._failed_at = -REOPEN_AFTER
        self._inflight: Entry | None = None
        self.closed_again = 0
        """Number of events that were added to a closed run and closed it again."""

    @property
    def used_bytes(self) -> int:
        """Bytes in the directory: exact for this emitter, as last measured for others."""
        return self._foreign_bytes + self._closed_bytes + self._segment_size

    @property
    def sequence(self) -> int:
        """Highest event number of this emitter."""
        return self._sequence

    def append(
        self, event: dict[str, Any], trace: TraceState | None, *, closes_run: bool | None
    ) -> str | None:
        """Number and write an event; return None, or the reason why it was dropped."""
        return self._append(([values.encode_line(event)], trace, closes_run))

    def append_all(
        self, lines: list[Line], trace: TraceState | None, *, closes_run: bool | None
    ) -> str | None:
        """Number and write consecutive JSON events in one write; all of them or none."""
        return self._append((lines, trace, closes_run))

    def _append(self, draft: Draft) -> str | None:
        with self._lock:
            if self._writing:
                # A signal handler or finaliser re-entered during a write: its events are written
                # after it.
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
        self, drafts: list[Line], trace: TraceState | None, closes_run: bool | None
    ) -> str | None:
        count = len(drafts)
        coming = 0
        for head, tail in drafts:
            coming += len(head) + len(tail)
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
        again = closes_run is None and trace is not None and trace.is_closed
        closes = again or closes_run is True
        lines = self._lines(drafts, trace, closes)
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
            self.closed_again += again
            return None
        self._mend_tail()
        self._inflight = None
        return SPOOL_ERROR

    def _book(self, entry: Entry) -> None:
        """Store the counters of a written line; values are absolute, so repeating is harmless."""
        trace, closes, sequence, self._segment_size, self.recorded, self.recorded_bytes = entry
        if trace is not None and sequence > self._sequence:
            trace.recorded += sequence - self._sequence
            trace.is_closed = closes
        self._sequence = sequence

    def _settle_interrupted(self) -> None:
        """Check how much reached the file after an exception interrupted a write."""
        entry, self._inflight = self._inflight, None
        if entry is None or self._file < 0:
            return
        size = os.fstat(self._file).st_size
        if size == entry[3]:
            self._book(entry)
        elif size != self._segment_size:
            # A partial line: readers ignore it at the end of a segment, so close this segment.
            self._close_segment()

    def _lines(self, drafts: list[Line], trace: TraceState | None, closes_run: bool) -> bytes:
        """Add the numbers to encoded events; cheaper than encoding under the lock."""
        number, signature, last, place = self._sequence, self._signature, "", 0
        if trace is not None:
            if trace.emitter_id != self.emitter_id:
                # After a fork or a new configuration, the count of a trace restarts.
                trace.emitter_id = self.emitter_id
                trace.recorded = 0
            place = trace.recorded
            if closes_run:
                last = f',"trace_event_count":{place + len(drafts)}'
        pieces: list[bytes] = []
        for head, tail in drafts:
            number += 1
            numbers = f"{signature}{number}"
            if trace is not None:
                place += 1
                numbers = f'{numbers},"trace_seq":{place}'
            pieces += (head, numbers.encode(), tail, b"\n")
        if last:
            pieces[-3] += last.encode()
        return b"".join(pieces)

    def _sign(self, emitter_id: str) -> None:
        self._signature = f',"emitter_id":"{emitter_id}","emitter_seq":'
        self.emitter_id = emitter_id

    def _mend_tail(self) -> None:
        """After a failed or short write, truncate the segment or start a new one."""
        try:
            os.ftruncate(self._file, self._segment_size)
        except OSError:
            self._close_segment()
        if self._memory_bytes and not self._in_memory:
            # The disk is full or failing: use memory for a while.
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
        """Open a segment in memory if there is room; otherwise leave none open."""
        # Reserve a whole segment, so that the limit is not checked on each write.
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
        make_directory(self.directory)
        self._on_open()
        for _attempt in range(_LOCK_ATTEMPTS):
            emitter_id = self.emitter_id or sortable_id("emt")
            lock = EmitterLock.take(self.directory / f"{emitter_id}{LOCK_SUFFIX}", create=True)
            # None if a shipper took the new lock for a dead process's: retry with a new id.
            if lock is not None:
                self._emitter_lock = lock
                self._sign(emitter_id)
                self._foreign_bytes = self._measure_others()
                return
        raise BlockingIOError(errno.EAGAIN, "no lock to be had", str(self.directory))

    def _close_segment(self) -> None:
        # Reset before closing: an interruption then leaks a descriptor but keeps the spool usable.
        file, self._file = self._file, -1
        self._in_memory = False
        self._segment_bytes = self._disk_segment_bytes
        self._closed_bytes += self._segment_size
        self._segment_size = 0
        os.close(file)

    def released(self, size: int) -> None:
        """Subtract the size of a shipped segment that was removed."""
        with self._lock:
            self._closed_bytes = max(0, self._closed_bytes - size)

    def refresh(self) -> None:
        """Measure again how much other emitters occupy."""
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
                    # Refused events have their own limit and must not crowd out new ones.
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
        """Close this emitter; remove its files if all events are settled.

        Otherwise the files stay for a later process. A later event opens a new emitter.
        """
        with self._lock:
            remove = settled >= self.recorded
            emitter_id, lock = self.emitter_id, self._emitter_lock
            if self._file >= 0:
                self._close_segment()
            self.memory.clear()
            # No shipper is left for events in memory: later events go to disk or are dropped.
            self._memory_bytes = 0
            self._forget_emitter()
            if emitter_id is None or lock is None:
                return
            if remove:
                remove_files(self.directory, emitter_id)
            lock.release(remove=remove)

    def disown(self) -> None:
        """Close the parent's files in a forked child without changing them."""
        if self._file >= 0:
            os.close(self._file)
        if self._emitter_lock is not None:
            self._emitter_lock.disown()
        self.memory.disown()
        self._forget_emitter()


def make_directory(directory: Path) -> None:
    """Create a spool directory, or make an existing one private to this user.

    Raises:
        OSError: it cannot be created, or others could replace its contents.
    """
    directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    check_owner(directory)
    if stat.S_IMODE(directory.stat().st_mode) & 0o077:
        directory.chmod(_DIRECTORY_MODE)


def check_owner(directory: Path) -> None:
    """Check that a spool directory belongs to this user and that others cannot replace it.

    Raises:
        PermissionError: another user owns it, it is a link, or others can write to its parent.
    """
    found, parent = directory.lstat(), directory.parent.stat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "not a directory of this user", str(directory))
    if parent.st_uid not in (os.geteuid(), 0):
        reason = "the directory around it belongs to another user"
        raise PermissionError(errno.EPERM, reason, str(directory))
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        reason = "everybody may write to the directory around it"
        raise PermissionError(errno.EPERM, reason, str(directory))


def segment_path(directory: Path, emitter_id: str, number: int) -> Path:
    """Return the path of a segment file."""
    return directory / f"{emitter_id}.{number:08d}{SEGMENT_SUFFIX}"


def remove_files(directory: Path, emitter_id: str) -> None:
    """Remove a finished emitter's files, except refused events and the lock."""
    for path in directory.glob(f"{emitter_id}.*{SEGMENT_SUFFIX}"):
        if not path.name.endswith(REJECTED_SUFFIX):
            path.unlink(missing_ok=True)
    (directory / f"{emitter_id}{OFFSET_SUFFIX}").unlink(missing_ok=True)
