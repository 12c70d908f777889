"""`/v1/scores`: record, list and average scores of runs and steps."""

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.conditions import check_range
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.events import MAX_WAIT_SECONDS, WAIT_SECONDS, is_stored
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of
from tracereel_collector.model import Kind
from tracereel_collector.query.filters import WIDEST
from tracereel_collector.query.scores import LATEST, MAX_LISTED, ScoreFilter

router = ScopedRouter()
Number = Annotated[float | None, Query(ge=-WIDEST, le=WIDEST, allow_inf_nan=False)]
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


@router.get("/v1/scores", scope=KeyScope.READ, summary="List scores")
async def get_scores(
    request: Request,
    trace_id: str = "",
    name: str = "",
    agent: str = "",
    source: str = "",
    author: str = "",
    category: str = "",
    q: Annotated[str, Query(max_length=1_000)] = "",
    min: Number = None,  # noqa: A002 - part of the API
    max: Number = None,  # noqa: A002 - part of the API
    before: Annotated[int | None, Query(ge=1, le=LATEST)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> Response:
    """List scores, newest first; pass `next` as `?before=` for the next page."""
    check_range(min, max, names=("min", "max"))
    parts, tenant = parts_of(request), caller_of(request).tenant
    wanted = ScoreFilter(
        trace_id=trace_id,
        name=name,
        agent=agent,
        source=source,
        author=author,
        category=category,
        text=q,
        low=min,
        high=max,
    )
    document = await parts.queries.run(
        lambda: parts.scores.document(tenant, wanted, before=before, limit=limit), tenant=tenant
    )
    return Response(document, media_type="application/json")


@router.get("/v1/scores/averages", scope=KeyScope.READ, summary="Average scores per agent")
async def get_averages(
    request: Request, name: str = "", agent: str = "", source: str = "", trace_id: str = ""
) -> Response:
    """Return average scores by agent and score name; scores of whole runs have no agent."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    wanted = ScoreFilter(trace_id=trace_id, name=name, agent=agent, source=source)
    document = await parts.queries.run(lambda: parts.scores.averages(tenant, wanted), tenant=tenant)
    return Response(document, media_type="application/json")


@router.post(
    "/v1/scores",
    scope=KeyScope.WRITE,
    summary="Score a run or a step",
    openapi_extra={"requestBody": _BODY},
)
async def post_scores(
    request: Request,
    wait: Literal["stored"] | None = None,
    timeout: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = WAIT_SECONDS,  # noqa: ASYNC109 - part of the API
) -> JSONResponse:
    """Record one score or an array of them; a known id replaces the earlier score."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers, tenant=caller.tenant) as data:
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
