"""`/v1/keys`: a tenant's keys, for those of its keys that may administer."""

import asyncio
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Caller, Scope
from tracereel_collector.auth.administration import described
from tracereel_collector.auth.keys import MAX_NAME, parse_scopes
from tracereel_collector.errors import BadRequestError, ForbiddenError, TooLargeError

router = Surface(scope=Scope.ADMIN)

MAX_BYTES = 16 * 1024


class NewKey(BaseModel):
    """What a new key may do and until when."""

    model_config = ConfigDict(extra="forbid")

    scopes: str = Field("write,read", max_length=100, description="Some of write, read, admin.")
    name: str = Field("", max_length=MAX_NAME)
    expires: str | None = Field(
        None, max_length=40, description="`90d`, `12h`, or a date such as 2027-01-31."
    )


@router.get("/v1/keys", summary="List the tenant's keys")
async def list_keys(request: Request) -> dict[str, Any]:
    """Every key the tenant has or had; never a key itself."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    keys = await asyncio.to_thread(parts.administration.list, tenant=caller.tenant)
    return {"keys": [described(key) for key in keys]}


@router.post(
    "/v1/keys",
    summary="Make a key",
    status_code=201,
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": NewKey.model_json_schema()}}}
    },
)
async def create_key(request: Request) -> JSONResponse:
    """The answer is the only place that ever holds the key."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        wanted = _wanted(data)
    secret, key = await asyncio.to_thread(
        lambda: parts.administration.create(
            tenant=caller.tenant,
            scopes=parse_scopes(wanted.scopes),
            name=wanted.name,
            expires=wanted.expires,
            by=f"key {caller.key_id}",
        )
    )
    return JSONResponse({"key": secret, **described(key)}, status_code=201)


@router.delete("/v1/keys/{key_id}", summary="Revoke a key")
async def revoke_key(request: Request, key_id: str) -> dict[str, Any]:
    """It stops working within a second."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    key = await asyncio.to_thread(
        lambda: parts.administration.revoke(key_id, tenant=caller.tenant, by=f"key {caller.key_id}")
    )
    await asyncio.to_thread(parts.gate.refresh)
    return described(key)


def _holder_of_a_key(request: Request) -> Caller:
    """Who asks; without any key, nobody may make the first one from outside."""
    caller = caller_of(request)
    if not caller.key_id:
        raise ForbiddenError(
            "the scope 'admin' needs a key here",
            hint="make one with `tracereel keys create --scope admin`",
        )
    return caller


def _wanted(data: bytes) -> NewKey:
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"the body has {len(data)} bytes; at most {MAX_BYTES} are accepted")
    try:
        return NewKey.model_validate_json(data or b"{}")
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the body"
        raise BadRequestError(f"{name}: {first['msg']}") from error
