"""`GET /v1/tail`: live stream of acknowledged records as Server-Sent Events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.responses import Response

from tracereel.events import CUSTOM_PREFIX, EVENT_TYPES
from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, InvalidFilterError
from tracereel_collector.http.dependencies import Parts, caller_of, parts_of
from tracereel_collector.http.parameters import Number, attribute_pairs, ranges
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.streams import HeldStream
from tracereel_collector.http.tail_group import MAX_ID_CHARS, GroupTail, places_of
from tracereel_collector.live.filters import MEASURES, VALUES, TailFilter
from tracereel_collector.live.hub import LiveTail
from tracereel_collector.live.reader import Reader
from tracereel_collector.model import SPAN_EVENT

router = ScopedRouter(KeyScope.READ)
RETRY_MILLISECONDS = 2000
MAX_VALUES = 20
MAX_NUMBER = 2**63 - 1
Values = Annotated[list[str] | None, Query(max_length=MAX_VALUES)]
Elsewhere = Annotated[str | None, Query(include_in_schema=False)]
"""Search filters that the tail does not support; read to refuse them with a reason."""
_TYPES = (*sorted(EVENT_TYPES), SPAN_EVENT)
_OF_SCORES = ("score", "score_category", "min_score", "max_score")


@router.get(
    "/v1/tail",
    summary="Watch live",
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "A stream that goes on."}
    },
    openapi_extra={"x-tracereel-stream": True},
)
async def get_tail(
    request: Request,
    type: Values = None,  # noqa: A002 - part of the API
    agent: Values = None,
    pipeline: Values = None,
    status: Values = None,
    error: Values = None,
    category: Values = None,
    code: Values = None,
    session: Values = None,
    user: Values = None,
    trace: Values = None,
    model: Values = None,
    provider: Values = None,
    service: Values = None,
    attribute: Values = None,
    min_duration_ms: Number = None,
    max_duration_ms: Number = None,
    min_cost_usd: Number = None,
    max_cost_usd: Number = None,
    min_tokens: Number = None,
    max_tokens: Number = None,
    min_confidence: Number = None,
    max_confidence: Number = None,
    score: Elsewhere = None,
    score_category: Elsewhere = None,
    min_score: Elsewhere = None,
    max_score: Elsewhere = None,
    q: Annotated[str, Query(max_length=1000)] = "",
    after: Annotated[str | None, Query(max_length=MAX_ID_CHARS)] = None,
    last_event_id: Annotated[str | None, Header(max_length=MAX_ID_CHARS)] = None,
) -> Response:
    """Stream records as they are acknowledged, with the sequence number as `id`.

    `Last-Event-ID` or `after` continues after a record. In a group of collectors, the records of all
    members, and an `id` that names the last number of each; a `gap` names a member that does not answer.
    """
    given = locals()
    _refuse_scores(given)
    _refuse_types(type or ())
    least, most = ranges(given, MEASURES)
    parts, caller = parts_of(request), caller_of(request)
    wanted = TailFilter(
        values={name: tuple(given[name] or ()) for name in VALUES},
        least=least,
        most=most,
        attribute=attribute_pairs(attribute),
        text=q,
    )
    seen = last_event_id if last_event_id is not None else after
    own = "" if parts.peers is None else parts.peers.group.name
    places = places_of(seen, own)
    reader, held = await watch(parts, caller.tenant, wanted, places.get(own))
    frames = _frames(reader, parts.tail.beat_seconds)
    if parts.peers is not None:
        group = GroupTail(parts.peers, tenant=caller.tenant, wanted=wanted, places=places)
        frames = group.frames(frames)
    return stream_of(frames, held)


async def watch(
    parts: Parts, tenant: str, wanted: TailFilter, after: int | None
) -> tuple[Reader, AsyncExitStack]:
    """Subscribe to the records of this collector; return the reader and what to release."""
    if after is not None and after > MAX_NUMBER:
        raise BadRequestError(f"after: expected at most {MAX_NUMBER}")
    position = await asyncio.to_thread(parts.tail.position, after)
    reader = parts.tail.subscribe(tenant, wanted, position)
    held = AsyncExitStack()
    held.enter_context(_leaving(parts.tail, reader))
    return reader, held


async def watch_for_peer(
    parts: Parts, tenant: str, wanted: TailFilter, after: int | None
) -> Response:
    """Stream the records of this collector to another member."""
    reader, held = await watch(parts, tenant, wanted, after)
    return stream_of(_frames(reader, parts.tail.beat_seconds), held)


def stream_of(frames: AsyncIterator[bytes], held: AsyncExitStack) -> Response:
    """Return a response of Server-Sent Events."""
    return HeldStream(
        frames,
        held=held,
        refused_event="end",
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


def _refuse_scores(given: dict[str, object]) -> None:
    for name in _OF_SCORES:
        if given[name] is not None:
            raise InvalidFilterError(
                f"{name}: records that were only now acknowledged have no scores yet;"
                " expected the other filters of the search",
                hint="GET /v1/traces finds runs by their scores",
            )


def _refuse_types(names: Iterable[str]) -> None:
    """Refuse unknown event types."""
    for name in names:
        whole = name in _TYPES or name.startswith(CUSTOM_PREFIX)
        beginning = name.endswith(".") and any(each.startswith(name) for each in _TYPES)
        if not whole and not beginning:
            raise InvalidFilterError(
                f"type: {name!r} is none; expected one of {', '.join(_TYPES)}, one that begins with"
                f" {CUSTOM_PREFIX!r}, or a beginning up to a dot"
            )


@contextmanager
def _leaving(tail: LiveTail, reader: Reader) -> Iterator[None]:
    """Remove a reader at the end of its response and count why it ended."""
    reason = "left"
    try:
        yield
        reason = "stopping" if reader.is_over else "left"
    except asyncio.CancelledError:
        reason = "refused"
        raise
    finally:
        tail.leave(reader, reason)


async def _frames(reader: Reader, beat_seconds: float) -> AsyncIterator[bytes]:
    """Yield frames until the reader ends."""
    yield b"retry: %d\nid: %d\n\n" % (RETRY_MILLISECONDS, reader.number)
    is_last = False
    while not is_last:
        frames, is_last = await reader.take(seconds=beat_seconds)
        yield frames
