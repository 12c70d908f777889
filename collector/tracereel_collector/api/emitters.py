"""`POST /v1/heartbeats` and `GET /v1/emitters`: who emits, how far they are, what is missing."""

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.query.emitters import MAX_EMITTERS

router = APIRouter()
State = Literal["alive", "ended", "recovered", "silent", "unknown"]


@router.post("/v1/heartbeats", summary="Say how far an emitter has come")
async def post_heartbeats(request: Request) -> JSONResponse:
    """One heartbeat or an array of them; durable when acknowledged."""
    parts = parts_of(request)
    tenant = parts.keyring.tenant_of(request.headers)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        accepted = await parts.accept.heartbeats(data, tenant=tenant)
    rejected = [
        {"index": each.index, "emitter_id": each.event_id, "reason": each.reason}
        for each in accepted.rejected
    ]
    return JSONResponse({"accepted": accepted.receipt.appended, "rejected": rejected})


@router.get("/v1/emitters", summary="List emitters")
async def get_emitters(
    request: Request,
    state: State | None = None,
    service: str | None = None,
    emitter_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EMITTERS)] = 100,
) -> Response:
    """Each with its state, the highest number it claims, and how many of its numbers are missing."""
    parts = parts_of(request)
    tenant = parts.keyring.tenant_of(request.headers)
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
