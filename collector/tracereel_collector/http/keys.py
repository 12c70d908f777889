"""`/v1/keys`: API keys of a tenant, for callers with the `admin` scope."""

import asyncio
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracereel_collector.auth import Caller, KeyScope
from tracereel_collector.auth.keys import MAX_NAME, parse_scopes
from tracereel_collector.errors import BadRequestError, ForbiddenError, TooLargeError
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of

router = ScopedRouter()

MAX_BYTES = 16 * 1024


class NewKey(BaseModel):
    """Scopes, name and expiry of a new key."""

    model_config = ConfigDict(extra="forbid")

    scopes: str = Field("write,read", max_length=100, description="Some of write, read, admin.")
    name: str = Field("", max_length=MAX_NAME)
    expires: str | None = Field(
        None, max_length=40, description="`90d`, `12h`, or a date such as 2027-01-31."
    )


@router.get("/v1/keys", scope=KeyScope.ADMIN, summary="List the tenant's keys")
async def list_keys(request: Request) -> dict[str, Any]:
    """List all keys of the tenant, including expired and revoked ones, without secrets."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    keys = await asyncio.to_thread(parts.administration.list, tenant=caller.tenant)
    return {"keys": [parts.administration.described(key) for key in keys]}


@router.post(
    "/v1/keys",
    scope=KeyScope.ADMIN,
    summary="Make a key",
    status_code=201,
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": NewKey.model_json_schema()}}}
    },
)
async def create_key(request: Request) -> JSONResponse:
    """Create a key; only this response contains its secret."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    async with parts.bodies.read(request.stream(), request.headers, tenant=caller.tenant) as data:
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
    return JSONResponse({"key": secret, **parts.administration.described(key)}, status_code=201)


@router.delete("/v1/keys/{key_id}", scope=KeyScope.ADMIN, summary="Revoke a key")
async def revoke_key(request: Request, key_id: str) -> dict[str, Any]:
    """Revoke a key; it stops working within a second."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    key = await asyncio.to_thread(
        lambda: parts.administration.revoke(key_id, tenant=caller.tenant, by=f"key {caller.key_id}")
    )
    await asyncio.to_thread(parts.gate.refresh)
    return parts.administration.described(key)


def _holder_of_a_key(request: Request) -> Caller:
    """Return the caller; refuse callers without a key, so the first key needs the CLI."""
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
