"""The one reader of the queue in a process: decodes each body once, offers its records to all watchers."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from tracereel_collector.errors import ThrottledError, UnavailableError
from tracereel_collector.live.filters import TailFilter
from tracereel_collector.live.reader import Reader
from tracereel_collector.live.records import Record, records_of
from tracereel_collector.model import QueuedBody
from tracereel_collector.queue.following import Head, Position
from tracereel_collector.telemetry import TailMetrics, name_thread

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.2
"""How often new bodies are looked for: other processes append too, and do not ring here."""
SHARE = 0.25
"""Most of one core that this thread takes, over a second or so."""
MAX_BEHIND_BYTES = 16 * 1024 * 1024
"""When more than this waits to be read, the older part is skipped: live means now."""


class Follows(Protocol):
    """What is needed of the queue."""

    def now(self) -> Position:
        """Behind everything that is acknowledged."""
        ...

    def after(self, number: int, /) -> Position:
        """Behind a number somebody has seen."""
        ...

    def heads_after(self, body_id: int, /, *, tenant: str | None = None) -> list[Head]:
        """What came after a body, oldest first."""
        ...

    def body(self, body_id: int, /) -> QueuedBody | None:
        """One body, if it is still there."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    """How many may watch in one process, and how long a stream may be silent."""

    readers: int = 100
    readers_per_tenant: int = 20
    beat_seconds: float = 10.0


class LiveTail:
    """Who watches, and the thread that reads for them; it sleeps while nobody does."""

    def __init__(self, queue: Follows, limits: TailLimits, metrics: TailMetrics) -> None:
        self._queue = queue
        self._limits = limits
        self.beat_seconds = limits.beat_seconds
        self._metrics = metrics
        self._readers: dict[Reader, None] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._body_id = 0
        self._thread = threading.Thread(target=self._run, name="live-tail", daemon=True)

    def subscribe(self, tenant: str, wanted: TailFilter, position: Position) -> Reader:
        """A new reader; what is acknowledged from its position on will be offered to it.

        Raises:
            ThrottledError: as many watch as may.
            UnavailableError: the collector is stopping.
        """
        with self._changed:
            if self._stopping:
                raise UnavailableError("the collector is stopping")
            of_tenant = sum(reader.tenant == tenant for reader in self._readers)
            for have, most, whose in (
                (of_tenant, self._limits.readers_per_tenant, "of this tenant "),
                (len(self._readers), self._limits.readers, ""),
            ):
                if have >= most:
                    self._metrics.refused.inc()
                    raise ThrottledError(
                        f"{have} readers {whose}watch live already, the limit is {most}",
                        hint="end one of them, or raise TRACEREEL_TAIL_READERS",
                    )
            reader = Reader(tenant, wanted, position)
            if not self._readers:
                self._body_id = position.newest_body_id
            self._readers[reader] = None
            self._metrics.begun.inc()
            if not self._thread.is_alive():
                self._thread.start()
            self._changed.notify()
        return reader

    def leave(self, reader: Reader, reason: str) -> None:
        """Forget a reader; safe to call twice, the first reason counts."""
        with self._changed:
            if reader not in self._readers:
                return
            del self._readers[reader]
        self._metrics.ended.labels(reason).inc()

    def position(self, last_seen: int | None) -> Position:
        """Where somebody begins: behind what it has seen, or now. May wait for the disk."""
        return self._queue.now() if last_seen is None else self._queue.after(last_seen)

    async def start(self) -> None:
        """Nothing to do: the thread starts with the first reader."""

    async def stop(self) -> None:
        """End all streams in order, so that the server need not wait for them."""
        self._end_all()

    def _end_all(self) -> None:
        with self._changed:
            self._stopping = True
            readers = list(self._readers)
            self._changed.notify()
        for reader in readers:
            reader.end("end", {"reason": "the collector is stopping", "retry": True})

    def close(self) -> None:
        """End everything and let go of the queue; safe to call twice."""
        self._end_all()
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
            except Exception:  # whoever watches must not hang on a dead thread
                if not failing:
                    log.exception("live_tail_failed")
                busy, failing = False, True
            # What was used is paid for by a pause: ingest shares the interpreter with this thread.
            pause = (time.thread_time() - used) / SHARE - (time.monotonic() - began)
            with self._changed:
                if not self._stopping:
                    self._changed.wait(max(pause, 0.0 if busy else LOOK_SECONDS))

    def _look(self, readers: list[Reader]) -> bool:
        """Offer what is new to those at the front, and of the past to those behind it."""
        front = self._body_id
        heads = self._queue.heads_after(front)
        if heads:
            self._body_id = heads[-1].id
        behind = [reader for reader in readers if reader.body_id < front]
        self._advance([reader for reader in readers if reader.body_id >= front], heads)
        more = [self._catch_up(reader) for reader in behind]
        return bool(heads) or any(more)

    def _advance(self, readers: list[Reader], heads: list[Head]) -> None:
        by_tenant: dict[str, list[Reader]] = {}
        for reader in readers:
            by_tenant.setdefault(reader.tenant, []).append(reader)
        wanted = [head for head in heads if head.tenant in by_tenant]
        waiting = sum(head.size for head in wanted)
        skipped: dict[str, int] = {}
        for head in wanted:
            if waiting > MAX_BEHIND_BYTES:
                waiting -= head.size
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

    def _offer(self, readers: list[Reader], head: Head) -> None:
        current = [each for each in readers if not each.is_over and each.body_id < head.id]
        if not current:
            return
        body = self._queue.body(head.id)
        if body is None:
            self._skip(current, head.first_sequence_number + head.records, 1)
            return
        for record in records_of(body, after=min(reader.number for reader in current)):
            for reader in current:
                if reader.number < record.number and not reader.is_over:
                    self._show(reader, record)

    def _show(self, reader: Reader, record: Record) -> None:
        if not reader.offer(record):
            told: dict[str, object] = {
                "reason": "too much waited to be read",
                "last_offered": reader.number,
            }
            reader.end("lagged", told, forget=True)
            self.leave(reader, "lagged")

    def _catch_up(self, reader: Reader) -> bool:
        """Offer a reader some of what it missed, as fast as it reads; whether there may be more."""
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
                    return False  # the rest of this body when there is room again
        reader.backlog.popleft()
        reader.body_id = head.id
        return True

    def _list_backlog(self, reader: Reader) -> bool:
        """Find out what a reader has missed; whether there is anything."""
        position = self._queue.after(reader.number)
        if position.missed_before is not None:
            self._skip([reader], position.missed_before, 1)
        heads = self._queue.heads_after(position.body_id, tenant=reader.tenant)
        reader.backlog.extend(head for head in heads if head.id <= self._body_id)
        return bool(reader.backlog)
