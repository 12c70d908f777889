"""`/v1/retention`, and `DELETE` of a run or a user: retention rules and deletion."""

from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import body_of, caller_of, query
from tracereel_collector.http.parameters import json_body, parse_body
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.replay import check_trace_id
from tracereel_collector.query.retention import MAX_DAYS

router = ScopedRouter(KeyScope.ADMIN)
UserId = Annotated[str, Path(min_length=1, max_length=512)]


class RetentionRule(BaseModel):
    """How long rows of a tenant are kept."""

    model_config = ConfigDict(extra="forbid", strict=True)

    days: int | None = Field(
        ge=1, le=MAX_DAYS, description="After the day of arrival; null is for ever."
    )


@router.get("/v1/retention", scope=KeyScope.READ, summary="How long rows are kept")
async def get_retention(request: Request) -> dict[str, Any]:
    """Return the tenant's retention in days after the day of arrival; null keeps rows forever."""
    return await query(request, lambda parts, tenant: parts.retention.shown(tenant))


@router.post(
    "/v1/retention", summary="Set how long rows are kept", openapi_extra=json_body(RetentionRule)
)
async def set_retention(request: Request) -> dict[str, Any]:
    """Set the tenant's retention; older rows are deleted permanently within about a minute."""
    by = caller_of(request).name
    async with body_of(request) as data:
        days = parse_body(RetentionRule, data, hint='send {"days": 30}').days or 0
    return await query(request, lambda parts, tenant: parts.retention.set(tenant, days, by=by))


@router.delete("/v1/retention", summary="Keep rows as long as the collector is set to")
async def unset_retention(request: Request) -> dict[str, Any]:
    """Delete the tenant's rule, so that the collector's default applies."""
    by = caller_of(request).name
    return await query(request, lambda parts, tenant: parts.retention.set(tenant, None, by=by))


@router.delete("/v1/traces/{trace_id}", summary="Delete a run")
async def delete_trace(request: Request, trace_id: str) -> dict[str, Any]:
    """Delete a run from all tables, the queue and the quarantine.

    Its events that arrive within the next 180 days are dropped.
    """
    check_trace_id(trace_id)
    by = caller_of(request).name
    return await query(request, lambda parts, tenant: parts.deletion.trace(tenant, trace_id, by=by))


@router.delete("/v1/users/{user_id:path}", summary="Delete all runs of a user")
async def delete_user(request: Request, user_id: UserId) -> dict[str, Any]:
    """Delete every run in which an event or a span names the user."""
    by = caller_of(request).name
    return await query(request, lambda parts, tenant: parts.deletion.user(tenant, user_id, by=by))
