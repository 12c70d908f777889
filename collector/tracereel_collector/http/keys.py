"""`/v1/keys`, `/v1/login`, `/v1/logout`, `/v1/identity`: API keys and sessions of the page."""

import asyncio
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from tracereel_collector.auth import Caller, KeyScope
from tracereel_collector.auth.browsers import session_cookie
from tracereel_collector.auth.keyring import key_in
from tracereel_collector.auth.keys import MAX_NAME, Key, parse_scopes
from tracereel_collector.errors import ForbiddenError
from tracereel_collector.http.dependencies import Parts, body_of, caller_of, parts_of
from tracereel_collector.http.parameters import json_body, parse_body
from tracereel_collector.http.peer_router import named
from tracereel_collector.http.scoped_router import ScopedRouter

router = ScopedRouter(KeyScope.ADMIN)


class NewKey(BaseModel):
    """Scopes, name and expiry of a new key."""

    model_config = ConfigDict(extra="forbid")

    scopes: str = Field("write,read", max_length=100, description="Some of write, read, admin.")
    name: str = Field("", max_length=MAX_NAME)
    expires: str | None = Field(
        None, max_length=40, description="`90d`, `12h`, or a date such as 2027-01-31."
    )


@router.post("/v1/login", scope=KeyScope.READ, summary="Log in to the page")
async def log_in(request: Request) -> Response:
    """Start a session with the API key of the request.

    The session has the scopes of the key and ends when the key expires or is revoked.
    """
    parts, caller, key = parts_of(request), caller_of(request), key_in(request.headers)
    answer = JSONResponse({"tenant": caller.tenant, "scopes": sorted(caller.scopes)})
    # A session cannot extend itself: a new one needs the key.
    if key and caller.key_id:
        token = await asyncio.to_thread(parts.gate.begin_session, caller, key)
        if parts.replicas is not None:
            record = parts.gate.session_record(token, caller, key)
            await asyncio.to_thread(parts.replicas.push_session, record)
        answer.headers["set-cookie"] = session_cookie(token, request.headers, parts.gate.public)
    return answer


@router.post("/v1/logout", scope=KeyScope.PUBLIC, summary="Log out of the page")
async def log_out(request: Request) -> Response:
    """End the session and delete its cookie; the key stays valid."""
    parts, peer = parts_of(request), request.client.host if request.client else ""
    ended = await asyncio.to_thread(lambda: parts.gate.end_session(request.headers, peer=peer))
    cookie = session_cookie("", request.headers, parts.gate.public)
    answer: dict[str, Any] = {}
    if parts.replicas is not None and ended is not None:
        answer = named(await asyncio.to_thread(parts.replicas.push_session, ended))
    return JSONResponse(answer, headers={"set-cookie": cookie})


@router.get("/v1/identity", scope=KeyScope.WRITE, summary="Return the tenant and scopes of the key")
async def get_identity(
    request: Request,
    key: Annotated[
        str | None,
        Query(
            pattern="^([0-9a-f]{16}|none)$",
            description="Another key: the first 16 hex digits of its SHA-256, or `none`.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Return the tenant and scopes of the key that was sent.

    With `key`, also the state of another key: `active`, `expired`, `revoked`, or `unknown` if it does
    not belong to this tenant. Senders use it to deliver data spooled under a revoked key.
    """
    caller = caller_of(request)
    answer: dict[str, Any] = {"tenant": caller.tenant, "scopes": sorted(caller.scopes)}
    if key is not None:
        state = parts_of(request).gate.key_state(key, tenant=caller.tenant)
        answer["key"] = {"fingerprint": key, "state": state}
    return answer


@router.get("/v1/keys", summary="List the tenant's keys")
async def list_keys(request: Request) -> dict[str, Any]:
    """List all keys of the tenant, including expired and revoked ones, without secrets."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    keys = await asyncio.to_thread(parts.gate.keys.list, tenant=caller.tenant)
    return {"keys": [parts.gate.keys.document(key) for key in keys]}


@router.post(
    "/v1/keys",
    summary="Make a key",
    status_code=201,
    openapi_extra=json_body(NewKey, required=False),
)
async def create_key(request: Request) -> JSONResponse:
    """Create a key; only this response contains its secret."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    async with body_of(request) as data:
        wanted = parse_body(NewKey, data or b"{}")
    secret, key = await asyncio.to_thread(
        lambda: parts.gate.keys.create(
            tenant=caller.tenant,
            scopes=parse_scopes(wanted.scopes),
            name=wanted.name,
            expires=wanted.expires,
            by=f"key {caller.key_id}",
        )
    )
    pushed = await _push(parts, key)
    return JSONResponse({"key": secret, **parts.gate.keys.document(key), **pushed}, status_code=201)


@router.delete("/v1/keys/{key_id}", summary="Revoke a key")
async def revoke_key(request: Request, key_id: str) -> dict[str, Any]:
    """Revoke a key; it stops working within a second."""
    parts, caller = parts_of(request), _holder_of_a_key(request)
    key = await asyncio.to_thread(
        lambda: parts.gate.keys.revoke(key_id, tenant=caller.tenant, by=f"key {caller.key_id}")
    )
    await asyncio.to_thread(parts.gate.refresh)
    return {**parts.gate.keys.document(key), **await _push(parts, key)}


async def _push(parts: Parts, key: Key) -> dict[str, Any]:
    """Send a key to the other members of the group; return those that were not reached."""
    if parts.replicas is None:
        return {}
    return named(await asyncio.to_thread(parts.replicas.push_key, key))


def _holder_of_a_key(request: Request) -> Caller:
    """Return the caller; refuse callers without a key, so the first key needs the CLI."""
    caller = caller_of(request)
    if not caller.key_id:
        raise ForbiddenError(
            "the scope 'admin' needs a key here",
            hint="make one with `tracereel keys create --scope admin`",
        )
    return caller
