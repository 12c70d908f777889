"""`GET /v1/sessions`: conversations and their turns."""

import time
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.sessions import MAX_SESSIONS
from tracereel_collector.query.window import DAY, parse_window

router = Surface(scope=Scope.READ)


@router.get("/v1/sessions", summary="List conversations")
async def get_sessions(
    request: Request,
    from_: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    to: Annotated[str | None, Query(max_length=64)] = None,
    user: Annotated[str | None, Query(max_length=256)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_SESSIONS)] = 50,
    cursor: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """Those active in the last seven days unless told otherwise, the one active last first."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = parse_window(from_, to, now=time.time_ns(), default=7 * DAY)
    document = await parts.queries.run(
        lambda: parts.sessions.list_document(
            tenant, window, user=user or "", limit=limit, cursor=cursor
        )
    )
    return Response(document, media_type="application/json")


@router.get("/v1/sessions/{session_id:path}", summary="Show a conversation")
async def get_session(request: Request, session_id: str) -> Response:
    """Its turns, the oldest first, each with the rounds of models and tools in it."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    document = await parts.queries.run(lambda: parts.sessions.document(tenant, session_id))
    return Response(document, media_type="application/json")
