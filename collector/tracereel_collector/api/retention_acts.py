"""`POST` and `DELETE /v1/retention`: how long the tenant's rows are to be kept."""

from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Caller, Scope
from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.query.retention import MAX_DAYS

router = Surface(scope=Scope.ADMIN)

MAX_BYTES = 16 * 1024


class Wanted(BaseModel):
    """How long."""

    model_config = ConfigDict(extra="forbid", strict=True)

    days: int | None = Field(
        ge=1, le=MAX_DAYS, description="After the day of arrival; null is for ever."
    )


@router.post(
    "/v1/retention",
    summary="Set how long rows are kept",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": Wanted.model_json_schema()}},
        }
    },
)
async def set_retention(request: Request) -> dict[str, Any]:
    """What is older goes within a minute, for good."""
    parts, caller = parts_of(request), caller_of(request)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        days = _wanted(data).days or 0
    return await parts.queries.run(
        lambda: parts.retention.set(caller.tenant, days, by=_who(caller))
    )


@router.delete("/v1/retention", summary="Keep rows as long as the collector is set to")
async def unset_retention(request: Request) -> dict[str, Any]:
    """The tenant has no rule of its own any more."""
    parts, caller = parts_of(request), caller_of(request)
    return await parts.queries.run(
        lambda: parts.retention.set(caller.tenant, None, by=_who(caller))
    )


def _wanted(data: bytes) -> Wanted:
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"the body has {len(data)} bytes; at most {MAX_BYTES} are accepted")
    try:
        return Wanted.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the body"
        said = f"{name}: {first['msg']}; got {str(first.get('input'))[:80]!r}"
        raise BadRequestError(said, hint='send {"days": 30}') from error


def _who(caller: Caller) -> str:
    return caller.key_id or caller.peer
