"""`GET /v1/replay/{trace_id}`: a run in causal order, whole, in pages or as a stream."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import msgspec
from fastapi import Header, Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.dependencies import caller_of, parts_of, query, query_json
from tracereel_collector.http.parameters import Attempts
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.streams import HeldStream
from tracereel_collector.query.replay import MAX_PAGE, Page, check_trace_id, parse_cursor
from tracereel_collector.query.run.positions import BEGINNING, Cursor
from tracereel_collector.query.run.timeline import Entry
from tracereel_collector.query.state_at import parse_moment

router = ScopedRouter(KeyScope.READ)
PAGE = 500
"""Entries of one query, and most that a playback holds in memory."""
QUIET_SECONDS = 15.0
"""Longest silence before a comment is sent to keep the connection open."""
MAX_SECONDS = 3_600.0
"""Longest playback; then it ends with a `cut` event, and clients can continue."""

NextPage = Callable[[Cursor], Awaitable[Page]]


@router.get("/v1/replay/{trace_id}", summary="Replay a run")
async def get_replay(
    request: Request,
    trace_id: str,
    *,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE)] = None,
    after: str | None = None,
    at: str | None = None,
    stream: bool = False,
    speed: Annotated[float, Query(ge=0, le=1_000_000, allow_inf_nan=False)] = 1.0,
    linked: bool = True,
    content: bool = True,
    attempts: Attempts = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a run's events and spans in causal order in `timeline`, totals in `summary`.

    With `limit`, a page; pass its `next` as `after` for the next page. With `at`, the state at a moment.
    With `stream`, Server-Sent Events at `speed` times the recorded pace (0: no pauses). With
    `content=false`, messages and values above 4 KiB are left out; `content_bytes` is their size.
    `attempts=all` assigns events to idle attempts, as in the tree.
    """
    check_trace_id(trace_id)
    if at is not None and stream:
        raise BadRequestError("at: the state at a moment is not played; leave out `at` or `stream`")
    if at is not None:
        moment = parse_moment(at)
        return await query_json(
            request,
            lambda parts, tenant: parts.replay.state(tenant, trace_id, at=moment, linked=linked),
        )
    place = parse_cursor(after) if after else BEGINNING
    if stream:
        if last_event_id:
            place = parse_cursor(last_event_id, name="Last-Event-ID")
        return await _played(request, trace_id, place, speed=speed, linked=linked, content=content)
    if limit is None and place == BEGINNING:
        return await query_json(
            request,
            lambda parts, tenant: parts.replay.document(
                tenant, trace_id, linked=linked, content=content, attempts=attempts is not None
            ),
        )
    return await query_json(
        request,
        lambda parts, tenant: parts.replay.page(
            tenant,
            trace_id,
            after=place,
            limit=limit or MAX_PAGE,
            linked=linked,
            content=content,
            attempts=attempts is not None,
        ).document(),
    )


async def _played(
    request: Request, trace_id: str, place: Cursor, *, speed: float, linked: bool, content: bool
) -> Response:
    async def page(after: Cursor) -> Page:
        return await query(
            request,
            lambda parts, tenant: parts.replay.page(
                tenant, trace_id, after=after, limit=PAGE, linked=linked, content=content
            ),
        )

    first = await page(place)  # an unknown run is a 404, not an empty stream
    playbacks = parts_of(request).playbacks
    async with contextlib.AsyncExitStack() as held:
        held.enter_context(playbacks.slots.holding(caller_of(request).tenant))
        return HeldStream(
            play(first, page, speed=speed, stopping=playbacks.stopping),
            held=held.pop_all(),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


async def play(
    first: Page,
    next_page: NextPage,
    *,
    speed: float,
    stopping: asyncio.Event,
    max_seconds: float = MAX_SECONDS,
) -> AsyncIterator[bytes]:
    """Yield the entries with pauses between them, then `end` with the summary, or `cut`."""
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
    """Return the pause before an entry; the first entry of a connection has none."""
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
