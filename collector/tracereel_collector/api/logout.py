"""`POST /v1/logout`: takes the cookie of the page back."""

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.api.surface import Surface
from tracereel_collector.auth import Scope
from tracereel_collector.auth.cookie import set_cookie

router = Surface(scope=Scope.PUBLIC)


@router.post("/v1/logout", summary="Log out of the page")
async def log_out(request: Request) -> Response:
    """Forget the cookie; the key itself goes on."""
    secure = request.url.scheme == "https"
    return JSONResponse({}, headers={"set-cookie": set_cookie("", secure=secure)})
