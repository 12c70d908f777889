"""`GET /v1/agents`: statistics of agents over a time window."""

import time
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of
from tracereel_collector.query.agents import MAX_AGENTS, MAX_POINTS
from tracereel_collector.query.window import HOUR, Window, parse_window

router = ScopedRouter()
Moment = Annotated[str | None, Query(max_length=64)]
Start = Annotated[str | None, Query(alias="from", max_length=64)]
Points = Annotated[int, Query(ge=1, le=MAX_POINTS)]


@router.get("/v1/agents", scope=KeyScope.READ, summary="List agents")
async def get_agents(
    request: Request,
    from_: Start = None,
    to: Moment = None,
    points: Points = 60,
    limit: Annotated[int, Query(ge=1, le=MAX_AGENTS)] = 100,
) -> Response:
    """List agents, most active first; default window: the last hour."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = _window(from_, to)
    document = await parts.queries.run(
        lambda: parts.agents.list_document(tenant, window, points=points, limit=limit),
        tenant=tenant,
    )
    return Response(document, media_type="application/json")


@router.get("/v1/agents/{name:path}", scope=KeyScope.READ, summary="Show an agent")
async def get_agent(
    request: Request, name: str, from_: Start = None, to: Moment = None, points: Points = 60
) -> Response:
    """Return the agent's totals over a window and a time series of the same values."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    window = _window(from_, to)
    document = await parts.queries.run(
        lambda: parts.agents.document(tenant, name, window, points=points), tenant=tenant
    )
    return Response(document, media_type="application/json")


def _window(start: str | None, end: str | None) -> Window:
    now = time.time_ns()
    window = parse_window(start, end, now=now, default=HOUR)
    if window.end is not None:
        return window
    # Clocks of emitters may be slightly ahead, so the window ends a minute from now.
    return Window(start=window.start, end=max(now, window.start or 0) + 60 * 10**9)
