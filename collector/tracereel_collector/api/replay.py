"""`GET /v1/replay/{trace_id}`: a run, told in order: whole, in pages, at a moment, or played."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from tracereel_collector.api.parts import Parts, parts_of
from tracereel_collector.api.playback import PAGE, play
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.moment import parse_moment
from tracereel_collector.query.replay import (
    BEGINNING,
    MAX_PAGE,
    Page,
    check_trace_id,
    parse_cursor,
)
from tracereel_collector.query.run.rows import Cursor

router = Surface(scope=Scope.READ)


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
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """`timeline` holds every event and span once, in causal order; `summary` what it amounts to.

    With `limit` a page of it and `next`, to be given as `after`; with `at` the state at a moment;
    with `stream` Server-Sent Events at `speed` times the recorded pace (0: as fast as it can).
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)
    if at is not None and stream:
        raise BadRequestError("at: the state at a moment is not played; leave out `at` or `stream`")
    if at is not None:
        moment = parse_moment(at)
        state = await parts.queries.run(
            lambda: parts.replay.state(tenant, trace_id, at=moment, linked=linked)
        )
        return Response(state, media_type="application/json")
    place = parse_cursor(after) if after else BEGINNING
    if stream:
        if last_event_id:
            place = parse_cursor(last_event_id, name="Last-Event-ID")
        return await _played(parts, tenant, trace_id, place, speed=speed, linked=linked)
    if limit is None and place == BEGINNING:
        return await _whole(parts, tenant, trace_id, linked=linked)
    document = await parts.queries.run(
        lambda: parts.replay.page(
            tenant, trace_id, after=place, limit=limit or MAX_PAGE, linked=linked
        ).document()
    )
    return Response(document, media_type="application/json")


async def get_whole_replay(request: Request) -> Response:
    """The same without any parameter, as most ask for it: reached by a shorter way."""
    trace_id = check_trace_id(request.path_params["trace_id"])
    return await _whole(parts_of(request), caller_of(request).tenant, trace_id, linked=True)


async def _whole(parts: Parts, tenant: str, trace_id: str, *, linked: bool) -> Response:
    document = await parts.queries.run(
        lambda: parts.replay.document(tenant, trace_id, linked=linked)
    )
    return Response(document, media_type="application/json")


async def _played(
    parts: Parts, tenant: str, trace_id: str, place: Cursor, *, speed: float, linked: bool
) -> Response:
    async def page(after: Cursor) -> Page:
        return await parts.queries.run(
            lambda: parts.replay.page(tenant, trace_id, after=after, limit=PAGE, linked=linked)
        )

    first = await page(place)  # what does not exist is a 404, not a stream
    playbacks = parts.playbacks
    ticket = playbacks.begin()

    async def told() -> AsyncIterator[bytes]:
        try:
            async for part in play(first, page, speed=speed, stopping=playbacks.stopping):
                yield part
        finally:
            playbacks.end(ticket)

    return StreamingResponse(
        told(),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
