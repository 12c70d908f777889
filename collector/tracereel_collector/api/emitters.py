"""`GET /v1/emitters`: who emits, how far they are, what is missing."""

import time
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.emitters import MAX_EMITTERS

router = Surface(scope=Scope.READ)
State = Literal["alive", "ended", "recovered", "silent", "unknown"]


@router.get("/v1/emitters", summary="List emitters")
async def get_emitters(
    request: Request,
    state: State | None = None,
    service: str | None = None,
    emitter_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EMITTERS)] = 100,
) -> Response:
    """Each with its state, the highest number it claims, and how many of its numbers are missing."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    document = await parts.queries.run(
        lambda: parts.emitters.document(
            tenant,
            now_unix_milli=time.time_ns() // 1_000_000,
            emitter_id=emitter_id or "",
            state=state or "",
            service=service or "",
            limit=limit,
        )
    )
    return Response(document, media_type="application/json")
