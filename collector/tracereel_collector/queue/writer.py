"""Thread that owns the queue's write connection and commits waiting jobs together."""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tracereel_collector.errors import QueueUnavailableError, ThrottledError
from tracereel_collector.runtime import failpoints
from tracereel_collector.telemetry import name_thread

Work = Callable[[sqlite3.Connection], Any]

MAX_WAITING_BYTES = 256 * 1024 * 1024
FREE_SPACE = "free space in the data dir"
"""Hint for a full disk."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Work
    size: int
    done: "Future[Any]"


class CommitThread:
    """Runs jobs in shared transactions from its construction; a future resolves after the commit."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        commit_bytes: int,
        turn: Callable[[], AbstractContextManager[None]],
        on_begin: Work,
        on_commit: Work,
        on_rollback: Callable[[BaseException], None],
    ) -> None:
        self._connection = connection
        self._commit_bytes = commit_bytes
        self._turn = turn
        self._on_begin = on_begin
        self._on_commit = on_commit
        self._on_rollback = on_rollback
        self._jobs: deque[_Job] = deque()
        self._waiting_bytes = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="queue-commit", daemon=True)
        self._thread.start()

    def submit(self, work: Work, *, size: int = 0) -> "Future[Any]":
        """Submit a job for the next transaction."""
        job = _Job(work, size, Future())
        with self._wake:
            if self._stopping:
                raise QueueUnavailableError("the queue is closed: the collector is stopping")
            if size and self._waiting_bytes + size > MAX_WAITING_BYTES:
                raise ThrottledError("too many bytes wait for the disk", hint="send more slowly")
            self._jobs.append(job)
            self._waiting_bytes += size
            self._wake.notify()
        return job.done

    def stop(self) -> None:
        """Commit waiting jobs, then stop the thread; safe to call twice."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of jobs that are not in a transaction yet."""
        return self._waiting_bytes

    def _run(self) -> None:
        name_thread("commit")
        while True:
            with self._wake:
                while not self._jobs and not self._stopping:
                    self._wake.wait()
                if not self._jobs:
                    return
                jobs = self._take()
            if jobs:
                self._commit(jobs)

    def _take(self) -> list[_Job]:
        taken: list[_Job] = []
        size = 0
        while self._jobs and size < self._commit_bytes:
            job = self._jobs.popleft()
            size += job.size
            # A caller may have cancelled; from here on it cannot, so that setting a result is safe.
            if job.done.set_running_or_notify_cancel():
                taken.append(job)
        self._waiting_bytes -= size
        return taken

    def _commit(self, jobs: list[_Job]) -> None:
        try:
            with self._turn():
                if self._connection.in_transaction:  # an earlier rollback failed too
                    self._connection.execute("ROLLBACK")
                self._connection.execute("BEGIN IMMEDIATE")
                self._on_begin(self._connection)
                results = [job.work(self._connection) for job in jobs]
                failpoints.here("before_commit")
                self._connection.execute("COMMIT")
                failpoints.here("after_commit")
        except Exception as error:  # noqa: BLE001 - every waiting job must be resolved
            self._roll_back(error)
            if len(jobs) > 1:
                # One failing job must not fail the others: retry each in its own transaction.
                for job in jobs:
                    self._commit([job])
            else:
                jobs[0].done.set_exception(_as_collector_error(error))
            return
        self._on_commit(self._connection)
        for job, result in zip(jobs, results, strict=True):
            job.done.set_result(result)

    def _roll_back(self, error: BaseException) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # SQLite has rolled back by itself, as it does on I/O errors
        self._on_rollback(error)


def _as_collector_error(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        hint = FREE_SPACE if "full" in str(error) else None
        return QueueUnavailableError(f"the queue cannot keep data now: {error}", hint=hint)
    return error
