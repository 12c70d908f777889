"""`/v1/login`, `/v1/logout`, `/v1/identity`: sessions of the page, and identity of a key."""

import asyncio
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.auth.cookie import session_cookie
from tracereel_collector.auth.keyring import key_in
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter, caller_of

router = ScopedRouter()


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
        answer.headers["set-cookie"] = session_cookie(token, request.headers, parts.public)
    return answer


@router.post("/v1/logout", scope=KeyScope.PUBLIC, summary="Log out of the page")
async def log_out(request: Request) -> Response:
    """End the session and delete its cookie; the key stays valid."""
    parts, peer = parts_of(request), request.client.host if request.client else ""
    await asyncio.to_thread(lambda: parts.gate.end_session(request.headers, peer=peer))
    cookie = session_cookie("", request.headers, parts.public)
    return JSONResponse({}, headers={"set-cookie": cookie})


@router.get("/v1/identity", scope=KeyScope.WRITE, summary="Say whose key this is")
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
