"""Bounded buffer of one subscriber, between the reading thread and the event loop that sends."""

import asyncio
import threading
from collections import deque

import msgspec

from tracereel_collector.live.filters import TailFilter
from tracereel_collector.live.records import LiveRecord
from tracereel_collector.queue.following import BodyHead, Position

MAX_WAITING_BYTES = 4 * 1024 * 1024
MAX_WAITING_RECORDS = 10_000
ROOM_BYTES = MAX_WAITING_BYTES // 4
"""Buffered bytes below which more backlog is read for a lagging reader."""


class Reader:
    """Queue position of a subscriber and the frames waiting to be sent.

    The reading thread calls `offer`, `skip` and `end`; the event loop calls `take`.
    """

    def __init__(self, tenant: str, wanted: TailFilter, position: Position) -> None:
        self.tenant = tenant
        self.body_id = position.body_id
        """Last body that was offered completely."""
        self.number = position.number
        """Last sequence number offered, whether it matched the filter or not."""
        self.backlog: deque[BodyHead] = deque()
        """Bodies of the past to offer next."""
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
        """Whether more backlog may be read for this reader."""
        return self._bytes < ROOM_BYTES

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended."""
        return self._final is not None

    def offer(self, record: LiveRecord) -> bool:
        """Buffer a record if it matches the filter; return False if the buffer is full."""
        if self._wants(record.fields):
            frame = record.frame
            full = self._bytes + len(frame) > MAX_WAITING_BYTES or (
                len(self._frames) >= MAX_WAITING_RECORDS
            )
            if self._frames and full:  # a single record always fits, whatever its size
                return False
            self._put(frame)
        self.number = record.number  # set last, so that a record is never skipped
        return True

    def skip(self, before: int) -> None:
        """Send a gap event: records up to `before` are not shown."""
        self._put(_frame("gap", {"after": self.number, "before": before}))
        self.number = max(self.number, before - 1)

    def end(self, name: str, data: dict[str, object], *, forget: bool = False) -> None:
        """Set the last event of the stream and its data; `forget` discards buffered frames."""
        with self._lock:
            if self._final is not None:
                return
            if forget:
                self._frames, self._bytes = [], 0
            self._final = _frame(name, data)
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
            pass  # the loop has ended, and with it the response

    async def take(self, *, seconds: float) -> tuple[bytes, bool]:
        """Wait for frames and return them, and whether they are the last.

        After `seconds` without frames, return a comment with the last number offered, so that a client
        that reconnects can resume from there.
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


def _frame(name: str, data: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
