"""`/v1/emitters` and `/v1/heartbeats`: emitters, their progress and their missing events."""

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of
from tracereel_collector.query.emitters import MAX_EMITTERS

router = ScopedRouter()
State = Literal["alive", "ended", "recovered", "silent", "unknown"]
_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"anyOf": [{"type": "object"}, {"type": "array"}]}}},
}


@router.get("/v1/emitters", scope=KeyScope.READ, summary="List emitters")
async def get_emitters(
    request: Request,
    state: State | None = None,
    service: str | None = None,
    emitter_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EMITTERS)] = 100,
) -> Response:
    """List emitters with state, highest claimed number and count of missing numbers."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    document = await parts.queries.run(
        lambda: parts.emitters.document(
            tenant,
            now_unix_milli=parts.clock.unix_nano() // 1_000_000,
            emitter_id=emitter_id or "",
            state=state or "",
            service=service or "",
            limit=limit,
        ),
        tenant=tenant,
    )
    return Response(document, media_type="application/json")


@router.post(
    "/v1/heartbeats",
    scope=KeyScope.WRITE,
    summary="Say how far an emitter has come",
    openapi_extra={"requestBody": _BODY},
)
async def post_heartbeats(request: Request) -> JSONResponse:
    """Record one heartbeat or an array of them; durable when acknowledged."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers, tenant=caller.tenant) as data:
        parts.gate.charge(caller, size=len(data))
        accepted = await parts.accept.heartbeats(data, tenant=caller.tenant)
    rejected = [
        {"index": each.index, "emitter_id": each.event_id, "reason": each.reason}
        for each in accepted.rejected
    ]
    return JSONResponse({"accepted": accepted.receipt.appended, "rejected": rejected})
