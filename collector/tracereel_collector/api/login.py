"""`POST /v1/login`: a key in exchange for a cookie that scripts cannot read."""

import re
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.auth.cookie import set_cookie
from tracereel_collector.auth.keyring import key_in
from tracereel_collector.errors import BadRequestError

router = Surface(scope=Scope.READ)
_SENDABLE: Final = re.compile(r"[!#-+\--:<-\[\]-~]+")
"""What a cookie may hold."""


@router.post("/v1/login", summary="Log in to the page")
async def log_in(request: Request) -> Response:
    """Send the key as any request does; the cookie has its tenant and scopes, until it is revoked."""
    caller, key = caller_of(request), key_in(request.headers)
    if key and not _SENDABLE.fullmatch(key):
        raise BadRequestError("the key holds a character that no cookie may hold")
    answer = JSONResponse({"tenant": caller.tenant, "scopes": sorted(caller.scopes)})
    if key:
        answer.headers["set-cookie"] = set_cookie(key, secure=request.url.scheme == "https")
    return answer
