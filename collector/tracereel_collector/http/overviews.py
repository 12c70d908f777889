"""`/v1/agents`, `/v1/sessions`, `/v1/emitters`, `/v1/unread-attributes`: overviews of a tenant."""

import time
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import query_json
from tracereel_collector.http.parameters import (
    From,
    ScoreValue,
    Text,
    Texts,
    To,
    check_range,
)
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.agents import MAX_AGENTS, MAX_POINTS
from tracereel_collector.query.emitters import MAX_EMITTERS
from tracereel_collector.query.filters import Scored
from tracereel_collector.query.found_details import MAX_SCORES
from tracereel_collector.query.sessions import MAX_SESSION_EVENTS, MAX_SESSIONS
from tracereel_collector.query.unread_names import MAX_NAMES
from tracereel_collector.query.window import DAY, HOUR, Window, parse_window

router = ScopedRouter(KeyScope.READ)
Points = Annotated[int, Query(ge=1, le=MAX_POINTS)]
State = Literal["alive", "ended", "recovered", "silent", "unknown"]


@router.get("/v1/emitters", summary="List emitters")
async def get_emitters(
    request: Request,
    state: State | None = None,
    service: str | None = None,
    emitter_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EMITTERS)] = 100,
) -> Response:
    """List emitters with state, highest claimed number and count of missing numbers."""
    return await query_json(
        request,
        lambda parts, tenant: parts.emitters.document(
            tenant,
            now_unix_milli=parts.clock.unix_nano() // 1_000_000,
            emitter_id=emitter_id or "",
            state=state or "",
            service=service or "",
            limit=limit,
        ),
    )


@router.get("/v1/unread-attributes", summary="List attribute names that no dialect reads")
async def get_unread_attributes(
    request: Request, limit: Annotated[int, Query(ge=1, le=MAX_NAMES)] = 100
) -> Response:
    """List names on spans of models, tools and agents of the last day, most frequent first."""
    return await query_json(
        request,
        lambda parts, tenant: parts.unread_names.document(
            tenant, now_unix_nano=parts.clock.unix_nano(), limit=limit
        ),
    )


@router.get("/v1/sessions", summary="List conversations")
async def get_sessions(
    request: Request,
    from_: From = None,
    to: To = None,
    user: Annotated[str | None, Query(max_length=256)] = None,
    score: Texts = None,
    score_category: Texts = None,
    min_score: ScoreValue = None,
    max_score: ScoreValue = None,
    scores: Annotated[int, Query(ge=0, le=MAX_SCORES)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_SESSIONS)] = 50,
    cursor: Text = None,
) -> Response:
    """List sessions by last activity, latest first; default window: the last seven days."""
    check_range(min_score, max_score, names=("min_score", "max_score"))
    scored = Scored(
        names=tuple(score or ()),
        categories=tuple(score_category or ()),
        least=min_score,
        most=max_score,
    )
    window = parse_window(from_, to, now=time.time_ns(), default=7 * DAY)
    return await query_json(
        request,
        lambda parts, tenant: parts.sessions.list_document(
            tenant,
            window,
            user=user or "",
            scored=scored,
            scores=scores,
            limit=limit,
            cursor=cursor,
        ),
    )


@router.get("/v1/sessions/{session_id:path}", summary="Show a conversation")
async def get_session(
    request: Request,
    session_id: str,
    events: Annotated[int, Query(ge=0, le=MAX_SESSION_EVENTS)] = 0,
    after_event: Annotated[int, Query(ge=0, lt=2**63)] = 0,
) -> Response:
    """Return the turns of a session, oldest first, with their model and tool calls.

    With `events`, also that many of its events after the number `after_event`, numbered without gaps.
    """
    return await query_json(
        request,
        lambda parts, tenant: parts.sessions.document(
            tenant, session_id, events=events, after_event=after_event
        ),
    )


@router.get("/v1/agents", summary="List agents")
async def get_agents(
    request: Request,
    from_: From = None,
    to: To = None,
    points: Points = 60,
    limit: Annotated[int, Query(ge=1, le=MAX_AGENTS)] = 100,
) -> Response:
    """List agents, most active first; default window: the last hour."""
    window = _window(from_, to)
    return await query_json(
        request,
        lambda parts, tenant: parts.agents.list_document(
            tenant, window, points=points, limit=limit
        ),
    )


@router.get("/v1/agents/{name:path}", summary="Show an agent")
async def get_agent(
    request: Request, name: str, from_: From = None, to: To = None, points: Points = 60
) -> Response:
    """Return the agent's totals over a window and a time series of the same values."""
    window = _window(from_, to)
    return await query_json(
        request, lambda parts, tenant: parts.agents.document(tenant, name, window, points=points)
    )


def _window(start: str | None, end: str | None) -> Window:
    now = time.time_ns()
    window = parse_window(start, end, now=now, default=HOUR)
    if window.end is not None:
        return window
    # Clocks of emitters may be slightly ahead, so the window ends a minute from now.
    return Window(start=window.start, end=max(now, window.start or 0) + 60 * 10**9)
