"""Audit log of key administration and usage: JSON lines that never contain a key.

Acts (a key created or revoked) are written and synced before they take effect. Uses and refusals are
counted and written by a background thread: the first within a second, then one line a minute with
the count. Files are rotated: `audit.ndjson`, then `audit.ndjson.1` …; the oldest is deleted.
"""

import fcntl
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tracereel_collector.errors import ServiceUnavailableError

MAX_BYTES: Final = 8 * 1024 * 1024
FILES: Final = 5
MAX_SUBJECTS: Final = 1_000
"""Most distinct uses and refusals counted at a time; others share the peer `other`."""
REPEAT_SECONDS: Final = 60.0

Subject = tuple[tuple[str, str], ...]


class AuditLog:
    """Append-only log of a data directory; several processes may share it."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        on_error: Callable[[int], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / "audit.ndjson"
        self._max_bytes = max_bytes
        self._on_error = on_error
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts: Counter[Subject] = Counter()
        self._written_at: dict[Subject, float] = {}

    def act(self, event: str, **fields: Any) -> None:
        """Write a record and sync it to disk, before the act that it describes.

        Raises:
            ServiceUnavailableError: it cannot be written; the caller must not perform the act.
        """
        try:
            self._append([{"event": event, **fields}], sync=True)
        except OSError as error:
            raise ServiceUnavailableError(f"the audit log cannot be written: {error}") from error

    def note(self, event: str, **fields: str) -> None:
        """Count a use or a refusal; equal ones are written together by `flush`."""
        subject = (("event", event), *sorted(fields.items()))
        with self._lock:
            if subject not in self._counts and len(self._counts) >= MAX_SUBJECTS:
                subject = (("event", event), ("peer", "other"))
            self._counts[subject] += 1

    def flush(self, *, everything: bool = False) -> None:
        """Write new counts, and those last written a minute ago."""
        now = self._monotonic()
        with self._lock:
            self._written_at = {
                subject: at for subject, at in self._written_at.items() if now - at < REPEAT_SECONDS
            }
            due = [
                subject for subject in self._counts if everything or subject not in self._written_at
            ]
            lines = [{**dict(subject), "count": self._counts.pop(subject)} for subject in due]
            self._written_at.update(dict.fromkeys(due, now))
            while len(self._written_at) > MAX_SUBJECTS:
                self._written_at.pop(next(iter(self._written_at)))
        if lines:
            try:
                self._append(lines, sync=False)
            except OSError:
                self._on_error(len(lines))

    def _append(self, lines: list[dict[str, Any]], *, sync: bool) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = b"".join(msgspec.json.encode({"time": at, **line}) + b"\n" for line in lines)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._alone():
            self._make_room(len(data))
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                try:
                    _write_all(descriptor, data)
                    if sync:
                        os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, size)  # no part of a line that counts as lost
                    raise
            finally:
                os.close(descriptor)

    def _make_room(self, size: int) -> None:
        if not self._path.exists() or self._path.stat().st_size + size <= self._max_bytes:
            return
        for number in range(FILES - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}".removesuffix(".0"))
            if newer.exists():
                newer.replace(older)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock that serialises writing and rotation across processes."""
        descriptor = os.open(self._path.with_name("audit.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data: one call may write less, as on a disk that becomes full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
