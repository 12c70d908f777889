"""`GET /v1/sessions`: sessions and their turns."""

import time
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of
from tracereel_collector.query.sessions import MAX_SESSIONS
from tracereel_collector.query.window import DAY, parse_window

router = ScopedRouter()


@router.get("/v1/sessions", scope=KeyScope.READ, summary="List conversations")
async def get_sessions(
    request: Request,
    from_: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    to: Annotated[str | None, Query(max_length=64)] = None,
    user: Annotated[str | None, Query(max_length=256)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_SESSIONS)] = 50,
    cursor: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """List sessions by last activity, latest first; default window: the last seven days."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = parse_window(from_, to, now=time.time_ns(), default=7 * DAY)
    document = await parts.queries.run(
        lambda: parts.sessions.list_document(
            tenant, window, user=user or "", limit=limit, cursor=cursor
        ),
        tenant=tenant,
    )
    return Response(document, media_type="application/json")


@router.get("/v1/sessions/{session_id:path}", scope=KeyScope.READ, summary="Show a conversation")
async def get_session(request: Request, session_id: str) -> Response:
    """Return the turns of a session, oldest first, with their model and tool calls."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    document = await parts.queries.run(
        lambda: parts.sessions.document(tenant, session_id), tenant=tenant
    )
    return Response(document, media_type="application/json")
