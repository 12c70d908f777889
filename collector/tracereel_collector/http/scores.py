"""`/v1/scores`: record, list and average scores of runs, steps and sessions."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of, query_json
from tracereel_collector.http.parameters import (
    WAIT_SECONDS,
    ScoreValue,
    Timeout,
    Wait,
    check_range,
)
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.waiting import await_all
from tracereel_collector.model import Kind
from tracereel_collector.query.scores import LATEST, MAX_LISTED, ScoreFilter

router = ScopedRouter(KeyScope.READ)
_TEXTS = (
    *("id", "trace_id", "session_id", "span_id", "execution_id", "agent_name", "name"),
    *("comment", "source", "author"),
)
_SCORE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        **{name: {"type": "string"} for name in _TEXTS},
        "value": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "string"}]},
    },
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"anyOf": [_SCORE, {"type": "array", "items": _SCORE}]}}
    },
}


@router.get("/v1/scores", summary="List scores")
async def get_scores(
    request: Request,
    trace_id: str = "",
    session: Annotated[str, Query(max_length=256)] = "",
    name: str = "",
    agent: str = "",
    source: str = "",
    author: str = "",
    category: str = "",
    q: Annotated[str, Query(max_length=1_000)] = "",
    min: ScoreValue = None,  # noqa: A002 - part of the API
    max: ScoreValue = None,  # noqa: A002 - part of the API
    before: Annotated[int | None, Query(ge=1, le=LATEST)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> Response:
    """List scores, newest first; pass `next` as `?before=` for the next page."""
    check_range(min, max, names=("min", "max"))
    wanted = ScoreFilter(
        trace_id=trace_id,
        session_id=session,
        name=name,
        agent=agent,
        source=source,
        author=author,
        category=category,
        text=q,
        low=min,
        high=max,
    )
    return await query_json(
        request,
        lambda parts, tenant: parts.scores.document(tenant, wanted, before=before, limit=limit),
    )


@router.get("/v1/scores/averages", summary="Average scores per agent")
async def get_averages(
    request: Request, name: str = "", agent: str = "", source: str = "", trace_id: str = ""
) -> Response:
    """Return average scores by agent and score name; scores of whole runs and sessions have none."""
    wanted = ScoreFilter(trace_id=trace_id, name=name, agent=agent, source=source)
    return await query_json(request, lambda parts, tenant: parts.scores.averages(tenant, wanted))


@router.post(
    "/v1/scores",
    scope=KeyScope.WRITE,
    summary="Score a run, a step or a session",
    openapi_extra={"requestBody": _BODY},
)
async def post_scores(
    request: Request,
    wait: Wait = None,
    timeout: Timeout = WAIT_SECONDS,  # noqa: ASYNC109 - part of the API
) -> JSONResponse:
    """Record one score or an array of them; a known id replaces the earlier score."""
    parts, caller = parts_of(request), caller_of(request)
    async with body_of(request) as data:
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
    stored, _ = await await_all(parts, accepted.receipt, timeout, kind=Kind.SCORES)
    answer["status"] = "stored" if stored else "queued"
    return JSONResponse(answer, status_code=200 if stored else 202)
