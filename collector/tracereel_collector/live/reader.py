"""One who watches: what waits for it, bounded, between the thread that reads and the loop that sends."""

import asyncio
import threading
from collections import deque

import msgspec

from tracereel_collector.live.filters import TailFilter
from tracereel_collector.live.records import Record
from tracereel_collector.queue.following import Head, Position

MAX_WAITING_BYTES = 4 * 1024 * 1024
MAX_WAITING_RECORDS = 10_000
ROOM_BYTES = MAX_WAITING_BYTES // 4
"""While less than this waits, more of the past is read for a reader that catches up."""


class Reader:
    """A watcher's place in the queue and what it was not sent yet.

    The thread that reads along calls `offer`, `skip` and `end`; the loop that answers calls `take`.
    """

    def __init__(self, tenant: str, wanted: TailFilter, position: Position) -> None:
        self.tenant = tenant
        self.body_id = position.body_id
        """Everything up to this body was offered."""
        self.number = position.number
        """The last number offered, wanted or not."""
        self.backlog: deque[Head] = deque()
        """What of the past is to be offered next."""
        self._wants = wanted.test()
        self._lock = threading.Lock()
        self._frames: list[bytes] = []
        self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._waiting = asyncio.Event()
        self._final: bytes | None = None
        if position.missed_before is not None:
            self.skip(position.missed_before)

    @property
    def has_room(self) -> bool:
        """Whether more of the past may be read for it."""
        return self._bytes < ROOM_BYTES

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be offered."""
        return self._final is not None

    def offer(self, record: Record) -> bool:
        """Show it a record, if it wants it; False when too much waits already."""
        if self._wants(record.fields):
            frame = record.frame
            full = self._bytes + len(frame) > MAX_WAITING_BYTES or (
                len(self._frames) >= MAX_WAITING_RECORDS
            )
            if self._frames and full:  # one record always has room, whatever its size
                return False
            self._put(frame)
        self.number = record.number  # last: what is behind it can no longer be missed
        return True

    def skip(self, before: int) -> None:
        """Say that what came until a number is not shown here."""
        told = {"after": self.number, "before": before}
        self._put(b"event: gap\ndata: %b\n\n" % msgspec.json.encode(told))
        self.number = max(self.number, before - 1)

    def end(self, name: str, told: dict[str, object], *, forget: bool = False) -> None:
        """The last thing it is sent; `forget` what waits before it."""
        with self._lock:
            if self._final is not None:
                return
            if forget:
                self._frames, self._bytes = [], 0
            self._final = b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(told))
        self._wake()

    def _put(self, frame: bytes) -> None:
        with self._lock:
            if self._final is not None:
                return
            self._frames.append(frame)
            self._bytes += len(frame)
            first = len(self._frames) == 1
        if first:
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._waiting.set)
        except RuntimeError:
            pass  # the loop has ended, and with it the answer

    async def take(self, *, seconds: float) -> tuple[bytes, bool]:
        """What waits, as soon as something does, and whether it was the last.

        After a while without anything it is a comment, with the number up to which nothing was
        wanted: whoever comes back then need not start further behind.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.wait()
        except TimeoutError:
            pass
        with self._lock:
            self._waiting.clear()
            frames, self._frames, self._bytes = self._frames, [], 0
            final = self._final
            if not frames and final is None:
                return b": still here\nid: %d\n\n" % self.number, False
        return b"".join(frames) + (final or b""), final is not None
