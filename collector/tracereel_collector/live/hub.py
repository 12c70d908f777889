"""Queue reader of a process, which decodes each body once for all subscribers."""

import threading
import time
from collections import Counter
from collections.abc import Iterable

import structlog

from tracereel_collector.config import Settings
from tracereel_collector.errors import ServiceUnavailableError, ThrottledError
from tracereel_collector.live.filters import TailFilter
from tracereel_collector.live.reader import Reader
from tracereel_collector.live.records import records_of
from tracereel_collector.queue.following import BodyHead, Position, QueueFollower
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares
from tracereel_collector.telemetry import TailMetrics, name_thread

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.2
"""Polling interval; other processes append too and cannot wake up this one."""
SHARE = 0.25
"""Share of one core that this thread may use, averaged over about a second."""
MAX_BEHIND_BYTES = 16 * 1024 * 1024
"""Unread bytes above which older bodies are skipped, because a live tail shows the present."""


class LiveTail:
    """Registry of subscribers and the thread that reads for them; idle without subscribers."""

    def __init__(
        self,
        queue: QueueFollower,
        settings: Settings,
        metrics: TailMetrics,
        shares: SharePolicy = ONE_TENANT,
    ) -> None:
        self._queue = queue
        self._max_per_tenant = settings.tail_readers_per_tenant
        self.beat_seconds = settings.tail_beat_seconds
        self._metrics = metrics
        self._readers: dict[Reader, None] = {}
        self._slots = TenantShares(
            "live_streams",
            settings.tail_readers,
            shares,
            hint="end one of them, or raise TRACEREEL_TAIL_READERS",
        )
        self._changed = threading.Condition()
        self._stopping = False
        self._body_id = 0
        self._thread = threading.Thread(target=self._run, name="live-tail", daemon=True)

    def subscribe(self, tenant: str, wanted: TailFilter, position: Position) -> Reader:
        """Add a reader that is offered everything acknowledged from its position on."""
        with self._changed:
            if self._stopping:
                raise ServiceUnavailableError("the collector is stopping")
            self._take_slot(tenant)
            reader = Reader(tenant, wanted, position)
            if not self._readers:
                self._body_id = position.newest_body_id
            self._readers[reader] = None
            self._metrics.begun.inc()
            if not self._thread.is_alive():
                self._thread.start()
            self._changed.notify()
        return reader

    def _take_slot(self, tenant: str) -> None:
        try:
            most = self._max_per_tenant
            if self._slots.held_by(tenant) >= most:
                raise ThrottledError(
                    f"{most} readers of this tenant watch live already, the limit is {most}",
                    hint="end one of them, or raise TRACEREEL_TAIL_READERS_PER_TENANT",
                )
            self._slots.take(tenant)
        except ThrottledError:
            self._metrics.refused.inc()
            raise

    def leave(self, reader: Reader, reason: str) -> None:
        """Remove a reader. Safe to call twice; only the first reason is counted."""
        with self._changed:
            if reader not in self._readers:
                return
            del self._readers[reader]
            self._slots.give_back(reader.tenant)
        self._metrics.ended.labels(reason).inc()

    def position(self, last_seen: int | None) -> Position:
        """Return the position behind `last_seen`, or the current one if `None`; may block on disk."""
        return self._queue.now() if last_seen is None else self._queue.after(last_seen)

    def end_all(self) -> None:
        """End all streams, so that the server does not wait for them at shutdown."""
        with self._changed:
            self._stopping = True
            readers = list(self._readers)
            self._changed.notify()
        for reader in readers:
            reader.end("end", {"reason": "the collector is stopping", "retry": True})

    def close(self) -> None:
        """End all streams and close the queue; safe to call twice."""
        self.end_all()
        if self._thread.is_alive():
            self._thread.join()
        self._queue.close()

    def _run(self) -> None:
        name_thread("live-tail")
        failing = False
        while True:
            with self._changed:
                while not self._readers and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                readers = list(self._readers)
            began, used = time.monotonic(), time.thread_time()
            try:
                busy = self._look(readers)
                failing = False
            except Exception:  # subscribers must not wait for a dead thread
                if not failing:
                    log.exception("live_tail_failed")
                busy, failing = False, True
            # Sleep in proportion to the CPU time used: ingest shares the interpreter with this thread.
            pause = (time.thread_time() - used) / SHARE - (time.monotonic() - began)
            with self._changed:
                if not self._stopping:
                    self._changed.wait(max(pause, 0.0 if busy else LOOK_SECONDS))

    def _look(self, readers: list[Reader]) -> bool:
        """Offer new bodies to current readers and backlog to lagging ones.

        Return whether there may be more to read.
        """
        front = self._body_id
        heads = self._queue.heads_after(front)
        if heads:
            self._body_id = heads[-1].id
        behind = [reader for reader in readers if reader.body_id < front]
        self._advance([reader for reader in readers if reader.body_id >= front], heads)
        more = [self._catch_up(reader) for reader in behind]
        return bool(heads) or any(more)

    def _advance(self, readers: list[Reader], heads: list[BodyHead]) -> None:
        by_tenant: dict[str, list[Reader]] = {}
        for reader in readers:
            by_tenant.setdefault(reader.tenant, []).append(reader)
        wanted = [head for head in heads if head.tenant in by_tenant]
        waiting = Counter[str]()
        for head in wanted:
            waiting[head.tenant] += head.size
        # Split the limit evenly, so that a tenant with too much traffic loses only its own records.
        most = MAX_BEHIND_BYTES // max(1, len(waiting))
        skipped: dict[str, int] = {}
        for head in wanted:
            if waiting[head.tenant] > most:
                waiting[head.tenant] -= head.size
                skipped[head.tenant] = skipped.get(head.tenant, 0) + 1
                continue
            of_tenant = by_tenant[head.tenant]
            if bodies := skipped.pop(head.tenant, 0):
                self._skip(of_tenant, head.first_sequence_number, bodies)
            self._offer(of_tenant, head)
        for tenant, bodies in skipped.items():
            self._skip(by_tenant[tenant], self._queue.now().number + 1, bodies)
        for reader in readers:
            reader.body_id = max(reader.body_id, self._body_id)

    def _skip(self, readers: Iterable[Reader], before: int, bodies: int) -> None:
        self._metrics.skipped.inc(bodies)
        for reader in readers:
            reader.skip(before)

    def _offer(self, readers: list[Reader], head: BodyHead) -> None:
        current = [each for each in readers if not each.is_over and each.body_id < head.id]
        if not current:
            return
        body = self._queue.body(head.id)
        if body is None:
            self._skip(current, head.first_sequence_number + head.records, 1)
            return
        for record in records_of(body, after=min(reader.number for reader in current)):
            for reader in current:
                if reader.number >= record.number or reader.is_over or reader.offer(record):
                    continue
                reason = "too much waited to be read"
                last = {"reason": reason, "last_offered": reader.number}
                reader.end("lagged", last, forget=True)
                self.leave(reader, "lagged")

    def _catch_up(self, reader: Reader) -> bool:
        """Offer a lagging reader its next body; return whether there may be more."""
        if not reader.has_room or reader.is_over:
            return False
        if not reader.backlog and not self._list_backlog(reader):
            reader.body_id = self._body_id
            return False
        head = reader.backlog[0]
        body = self._queue.body(head.id)
        if body is None:
            self._skip([reader], head.first_sequence_number + head.records, 1)
        else:
            for record in records_of(body, after=reader.number):
                if not reader.offer(record):
                    return False  # the rest of this body follows when there is room
        reader.backlog.popleft()
        reader.body_id = head.id
        return True

    def _list_backlog(self, reader: Reader) -> bool:
        """Fill a reader's backlog; return whether it has one."""
        position = self._queue.after(reader.number)
        if position.missed_before is not None:
            self._skip([reader], position.missed_before, 1)
        heads = self._queue.heads_after(position.body_id, tenant=reader.tenant)
        reader.backlog.extend(head for head in heads if head.id <= self._body_id)
        return bool(reader.backlog)
