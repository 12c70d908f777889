"""`GET /v1/scores`: what people and programs think of runs."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.api.conditions import check_range
from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.scored import WIDEST
from tracereel_collector.query.scores import LATEST, MAX_LISTED, ScoreFilter

router = Surface(scope=Scope.READ)
Number = Annotated[float | None, Query(ge=-WIDEST, le=WIDEST, allow_inf_nan=False)]


@router.get("/v1/scores", summary="List scores")
async def get_scores(
    request: Request,
    trace_id: str = "",
    name: str = "",
    agent: str = "",
    source: str = "",
    author: str = "",
    category: str = "",
    q: Annotated[str, Query(max_length=1_000)] = "",
    min: Number = None,  # noqa: A002 - the name people look for
    max: Number = None,  # noqa: A002 - the same
    before: Annotated[int | None, Query(ge=1, le=LATEST)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> Response:
    """The newest first; `next` continues the list as `?before=`."""
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
        lambda: parts.scores.document(tenant, wanted, before=before, limit=limit)
    )
    return Response(document, media_type="application/json")


@router.get("/v1/scores/averages", summary="Average scores per agent")
async def get_averages(
    request: Request, name: str = "", agent: str = "", source: str = "", trace_id: str = ""
) -> Response:
    """Per agent and name of the score; scores of whole runs stand under no agent."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    wanted = ScoreFilter(trace_id=trace_id, name=name, agent=agent, source=source)
    document = await parts.queries.run(lambda: parts.scores.averages(tenant, wanted))
    return Response(document, media_type="application/json")
