"""`GET /v1/retention`: how long the tenant's rows are kept."""

from typing import Any

from fastapi import Request

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope

router = Surface(scope=Scope.READ)


@router.get("/v1/retention", summary="How long rows are kept")
async def get_retention(request: Request) -> dict[str, Any]:
    """`days` after the day of arrival; null is for ever."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    return await parts.queries.run(lambda: parts.retention.shown(tenant))
