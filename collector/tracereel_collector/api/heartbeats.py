"""`POST /v1/heartbeats`: emitters say how far they have come; acknowledged when durable."""

from fastapi import Request
from fastapi.responses import JSONResponse

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope

router = Surface(scope=Scope.WRITE)

_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"anyOf": [{"type": "object"}, {"type": "array"}]}}},
}


@router.post(
    "/v1/heartbeats",
    summary="Say how far an emitter has come",
    openapi_extra={"requestBody": _BODY},
)
async def post_heartbeats(request: Request) -> JSONResponse:
    """One heartbeat or an array of them; durable when acknowledged."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        parts.gate.charge(caller, size=len(data))
        accepted = await parts.accept.heartbeats(data, tenant=caller.tenant)
    rejected = [
        {"index": each.index, "emitter_id": each.event_id, "reason": each.reason}
        for each in accepted.rejected
    ]
    return JSONResponse({"accepted": accepted.receipt.appended, "rejected": rejected})
