"""`POST /v1/scores`: a score or a note on a run or a step; acknowledged when durable."""

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import JSONResponse

from tracereel_collector.api.events import MAX_WAIT_SECONDS, WAIT_SECONDS, is_stored
from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.model import Kind

router = Surface(scope=Scope.WRITE)

_SCORE = {
    "type": "object",
    "required": ["trace_id", "name"],
    "properties": {
        **{
            name: {"type": "string"}
            for name in ("id", "trace_id", "span_id", "execution_id", "agent_name", "name")
        },
        **{name: {"type": "string"} for name in ("comment", "source", "author")},
        "value": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "string"}]},
    },
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"anyOf": [_SCORE, {"type": "array", "items": _SCORE}]}}
    },
}


@router.post("/v1/scores", summary="Score a run or a step", openapi_extra={"requestBody": _BODY})
async def post_scores(
    request: Request,
    wait: Literal["stored"] | None = None,
    timeout: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = WAIT_SECONDS,  # noqa: ASYNC109 - the sender's
) -> JSONResponse:
    """One score or an array of them; a score with the id of an earlier one takes its place."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        parts.gate.charge(caller, size=len(data))
        accepted, ids = await parts.accept.scores(data, tenant=caller.tenant)
    parts.gate.charge(caller, records=len(ids) + accepted.refused)
    answer = {
        "accepted": accepted.receipt.appended,
        "ids": ids,
        "rejected": [
            {"index": each.index, "id": each.event_id, "reason": each.reason}
            for each in accepted.rejected
        ],
    }
    if wait is None:
        return JSONResponse(answer)
    stored = await is_stored(parts, accepted.receipt, timeout, kind=Kind.SCORES)
    answer["status"] = "stored" if stored else "queued"
    return JSONResponse(answer, status_code=200 if stored else 202)
