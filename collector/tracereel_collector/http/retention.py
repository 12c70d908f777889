"""`/v1/retention`, and `DELETE` of a run or a user: retention rules and deletion."""

from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of
from tracereel_collector.query.replay import check_trace_id
from tracereel_collector.query.retention import MAX_DAYS

router = ScopedRouter()
MAX_BYTES = 16 * 1024
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
    parts, tenant = parts_of(request), caller_of(request).tenant
    return await parts.queries.run(lambda: parts.retention.shown(tenant), tenant=tenant)


@router.post(
    "/v1/retention",
    scope=KeyScope.ADMIN,
    summary="Set how long rows are kept",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": RetentionRule.model_json_schema()}},
        }
    },
)
async def set_retention(request: Request) -> dict[str, Any]:
    """Set the tenant's retention; older rows are deleted permanently within about a minute."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers, tenant=caller.tenant) as data:
        days = _rule(data).days or 0
    return await parts.queries.run(
        lambda: parts.retention.set(caller.tenant, days, by=caller.name), tenant=caller.tenant
    )


@router.delete(
    "/v1/retention", scope=KeyScope.ADMIN, summary="Keep rows as long as the collector is set to"
)
async def unset_retention(request: Request) -> dict[str, Any]:
    """Delete the tenant's rule, so that the collector's default applies."""
    parts, caller = parts_of(request), caller_of(request)
    return await parts.queries.run(
        lambda: parts.retention.set(caller.tenant, None, by=caller.name), tenant=caller.tenant
    )


@router.delete("/v1/traces/{trace_id}", scope=KeyScope.ADMIN, summary="Delete a run")
async def delete_trace(request: Request, trace_id: str) -> dict[str, Any]:
    """Delete a run from all tables, the queue and the quarantine.

    Its events that arrive within the next 180 days are dropped.
    """
    parts, caller = parts_of(request), caller_of(request)
    check_trace_id(trace_id)
    return await parts.queries.run(
        lambda: parts.deletion.trace(caller.tenant, trace_id, by=caller.name), tenant=caller.tenant
    )


@router.delete(
    "/v1/users/{user_id:path}", scope=KeyScope.ADMIN, summary="Delete all runs of a user"
)
async def delete_user(request: Request, user_id: UserId) -> dict[str, Any]:
    """Delete every run in which an event or a span names the user."""
    parts, caller = parts_of(request), caller_of(request)
    return await parts.queries.run(
        lambda: parts.deletion.user(caller.tenant, user_id, by=caller.name), tenant=caller.tenant
    )


def _rule(data: bytes) -> RetentionRule:
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"the body has {len(data)} bytes; at most {MAX_BYTES} are accepted")
    try:
        return RetentionRule.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the body"
        said = f"{name}: {first['msg']}; got {str(first.get('input'))[:80]!r}"
        raise BadRequestError(said, hint='send {"days": 30}') from error
