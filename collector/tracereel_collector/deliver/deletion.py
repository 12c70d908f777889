"""Deletion of a run or of a user's runs from store, queue and quarantine."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tracereel._redact.event_redaction import owner_forms
from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.deliver.deletion_queues import WAIT_SECONDS, DeletionQueues
from tracereel_collector.errors import (
    CollectorError,
    ServiceUnavailableError,
    StoreUnavailableError,
    ThrottledError,
    UnknownResourceError,
)
from tracereel_collector.model import Marks
from tracereel_collector.queue.deleted import LATE_SECONDS
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.deletion import (
    RunsToDelete,
    catch_up,
    count_rows,
    delete_rows,
    runs_of,
    spans_of_user,
    traces_of_user,
    unfinished,
)


@dataclass(slots=True)
class Deletion:
    """Runs one deletion at a time; concurrent requests are refused with ThrottledError.

    It can be interrupted anywhere and repeated: first late records are rejected, then undelivered
    bodies are delivered, then everything is removed.
    """

    queues: DeletionQueues
    store: ClickHouseStore
    audit: AuditLog
    writers: StoreWriters
    now_unix: Callable[[], float] = time.time
    wait_seconds: float = WAIT_SECONDS
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def trace(self, tenant: str, trace_id: str, *, by: str) -> dict[str, Any]:
        """Delete a run.

        Raises:
            UnknownResourceError: the run does not exist.
            ServiceUnavailableError: the audit log cannot be written or a backup runs; retry later.
            StoreUnavailableError: the store is unavailable; a retry continues the deletion.
            ThrottledError: another deletion is under way.
        """
        with self._alone():
            marks = _marks_of([trace_id])
            behind = catch_up(self.store)
            known = runs_of(self.store, tenant, [trace_id])
            if not (count_rows(self.store, known) or self.queues.is_known(tenant, marks)):
                raise _unknown(f"Run not found: {trace_id!r}", behind)
            self.audit.act("trace.deletion", tenant=tenant, by=by, trace_id=trace_id)
            rows, aside = self._remove(tenant, [trace_id], marks, behind)
            self.audit.act(
                "trace.deleted",
                tenant=tenant,
                by=by,
                trace_id=trace_id,
                rows=sum(rows.values()) + aside,
            )
        return {"trace_id": trace_id, **self._answer(rows, aside, behind)}

    def user(self, tenant: str, user_id: str, *, by: str) -> dict[str, Any]:
        """Delete every run that names a user; raises the errors of `trace`."""
        # The audit log gets a digest: a deleted user's name must not remain there.
        digest = hashlib.blake2b(f"{tenant}\0{user_id}".encode(), digest_size=16).hexdigest()
        with self._alone():
            marks = Marks(users=frozenset(owner_forms(user_id)))
            done: set[str] = set()
            behind = catch_up(self.store)
            ids = traces_of_user(self.store, tenant, user_id, done=done)
            if not (ids or self.queues.is_known(tenant, marks)):
                raise _unknown(f"User not found: {user_id!r}", behind)
            self.audit.act("user.deletion", tenant=tenant, by=by, user_digest=digest)
            self._settle(tenant, marks, behind)
            rows: Counter[str] = Counter()
            aside = 0
            while ids := traces_of_user(self.store, tenant, user_id, done=done):
                done.update(ids)
                more = replace(_marks_of(ids), users=marks.users)
                found, left = self._remove(tenant, ids, more, behind)
                rows.update(found)
                aside += left
            while (spans := spans_of_user(self.store, tenant, user_id)).spans:
                rows.update(self._delete(spans))
            aside += self.queues.purge(tenant, marks, self.queues.settle(tenant, marks))
            total = sum(rows.values()) + aside
            self.audit.act("user.deleted", tenant=tenant, by=by, user_digest=digest, rows=total)
        return {
            "user_id": user_id,
            "traces": len(done),
            **self._answer(rows, aside, behind),
        }

    def _settle(self, tenant: str, marks: Marks, behind: list[str]) -> None:
        """Store what waits and let replicas catch up, so that reads find it; add those that do not."""
        self.queues.settle(tenant, marks)
        if not behind:  # else the deletion has to be repeated anyway
            behind += catch_up(self.store)

    def _remove(
        self, tenant: str, ids: list[str], marks: Marks, behind: list[str]
    ) -> tuple[dict[str, int], int]:
        """Remove runs; return the rows removed by table and the records removed from quarantine."""
        self._settle(tenant, marks, behind)
        runs = runs_of(self.store, tenant, ids)
        marks = _with_otel(marks, runs)
        aside = self.queues.purge(tenant, marks, self.queues.settle(tenant, marks))
        return self._delete(runs), aside

    def _delete(self, runs: RunsToDelete) -> dict[str, int]:
        """Delete rows while no backup runs: a backup would contain half of the deletion."""
        with self.writers.writing(timeout=self.wait_seconds) as may_write:
            if not may_write:
                raise ServiceUnavailableError(
                    "a backup is being made; nothing more of it is taken, but it is not deleted yet",
                    hint="ask again when the backup is done",
                )
            return delete_rows(self.store, runs)

    def _answer(self, rows: dict[str, int], aside: int, behind: list[str]) -> dict[str, Any]:
        late = datetime.fromtimestamp(self.now_unix() + LATE_SECONDS, UTC)
        waiting = sorted({*unfinished(self.store), *behind})
        return {
            # Keeper has the deletion: replicas that are away delete the rows when they are back. One that
            # was behind may have rows that were not seen: asked again, they are.
            "status": "deleting" if waiting else "deleted",
            "rows": dict(sorted(rows.items())),
            "quarantined": aside,
            "late_until": late.isoformat(timespec="seconds"),
            **({"waiting_for": waiting} if waiting else {}),
        }

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise ThrottledError("another deletion is under way", hint="try again when it is done")
        try:
            yield
        finally:
            self._busy.release()


def _unknown(message: str, behind: list[str]) -> CollectorError:
    """Return the error for a name without rows; replicas that are behind may have some."""
    if not behind:
        return UnknownResourceError(message)
    return StoreUnavailableError(
        f"{message}, but replicas are away or lack rows of others: {', '.join(behind)}",
        hint="ask again when they are back",
    )


def _marks_of(trace_ids: Iterable[str]) -> Marks:
    """Return the marks of runs and of their default OpenTelemetry trace ids."""
    traces = frozenset(trace_ids)
    return Marks(traces=traces, otel=frozenset(map(otel_trace_id, traces)))


def _with_otel(marks: Marks, runs: RunsToDelete) -> Marks:
    valid = {name for name in runs.otel if otel_trace_id(name) == name}
    return replace(marks, otel=(marks.otel | valid) - set(runs.shared))
