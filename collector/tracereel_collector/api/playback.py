"""Plays a run as Server-Sent Events, at its own pace or faster; a reader that was cut off goes on."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakSet

import msgspec

from tracereel_collector.errors import ThrottledError
from tracereel_collector.query.replay import Page
from tracereel_collector.query.run.rows import Cursor
from tracereel_collector.query.run.timeline import Entry

MAX_PLAYBACKS = 64
"""Most runs that one process plays at once."""
PAGE = 500
"""Entries read at once: all that a playback holds."""
QUIET_SECONDS = 15.0
"""After so long without an entry a comment is sent, so that nobody takes the connection for dead."""
MAX_SECONDS = 3_600.0
"""Longest playback; then the reader is told to come again from where it is."""

NextPage = Callable[[Cursor], Awaitable[Page]]


class Ticket:
    """A place among those that are being played; given back when nobody holds it."""


@dataclass(slots=True)
class Playbacks:
    """Counts what is being played, so that it stays bounded, and ends it when the collector stops."""

    most: int = MAX_PLAYBACKS
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # Weak: a reader that hangs up before the first word leaves a generator that never ran.
    playing: "WeakSet[Ticket]" = field(default_factory=WeakSet)

    async def start(self) -> None:
        """Nothing is being played yet."""

    async def stop(self) -> None:
        """Everything that is being played is cut, at once."""
        self.stopping.set()

    def begin(self) -> Ticket:
        """A place for one more.

        Raises:
            ThrottledError: as many are under way as may be.
        """
        if len(self.playing) >= self.most:
            raise ThrottledError(
                f"{self.most} runs are being played already", hint="read it without stream=1"
            )
        ticket = Ticket()
        self.playing.add(ticket)
        return ticket

    def end(self, ticket: Ticket) -> None:
        """Give a place back."""
        self.playing.discard(ticket)


async def play(
    first: Page,
    next_page: NextPage,
    *,
    speed: float,
    stopping: asyncio.Event,
    max_seconds: float = MAX_SECONDS,
) -> AsyncIterator[bytes]:
    """The entries with the pauses between them; the last word is `end`, with the summary, or `cut`."""
    deadline = time.monotonic() + max_seconds
    page, last = first, None
    while True:
        for entry in page.entries:
            async for comment in _pause(_seconds(last, entry, speed), deadline, stopping):
                yield comment
            if stopping.is_set():
                yield b'event: cut\ndata: {"reason":"the collector is stopping"}\n\n'
                return
            if time.monotonic() >= deadline:
                yield b'event: cut\ndata: {"reason":"played for %d s"}\n\n' % max_seconds
                return
            yield b"id: %b\nevent: step\ndata: %b\n\n" % (str(entry.cursor).encode(), entry.data)
            last = entry
        if page.next is None:
            yield b"event: end\ndata: %b\n\n" % msgspec.json.encode(page.summary)
            return
        page = await next_page(page.next)


def _seconds(last: Entry | None, entry: Entry, speed: float) -> float:
    """How long to wait before an entry; the first comes at once, also for a reader that goes on."""
    if last is None or not speed:
        return 0.0
    return max(0.0, (entry.offset_ms - last.offset_ms) / 1_000 / speed)


async def _pause(seconds: float, deadline: float, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    until = min(time.monotonic() + seconds, deadline)
    while (left := until - time.monotonic()) > 0 and not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, QUIET_SECONDS)):
                await stopping.wait()
        if left > QUIET_SECONDS and not stopping.is_set():
            yield b": still playing\n\n"
