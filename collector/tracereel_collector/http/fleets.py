"""`/v1/fleets`: stored fleet replays."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import query_json
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.fleets import MAX_FLEETS
from tracereel_collector.query.replay import check_trace_id

router = ScopedRouter(KeyScope.READ)


@router.get("/v1/fleets", summary="List fleet replays")
async def get_fleets(
    request: Request,
    before: Annotated[str | None, Query(max_length=128)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_FLEETS)] = 50,
) -> Response:
    """List stored fleet replays, newest first; pass `next` as `?before=` for the next page."""
    return await query_json(
        request, lambda parts, tenant: parts.fleets.page(tenant, before=before, limit=limit)
    )


@router.get("/v1/fleets/{fleet_id}", summary="Read a fleet replay")
async def get_fleet(request: Request, fleet_id: str) -> Response:
    """Return counts, verdict of the policy, and groups of runs by cause."""
    check_trace_id(fleet_id)
    return await query_json(request, lambda parts, tenant: parts.fleets.document(tenant, fleet_id))
