"""Error responses: JSON for our routes, the protocol's format for others, 503 for bugs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from google.rpc.status_pb2 import Status
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tracereel_collector.errors import CollectorError, RetryableError
from tracereel_collector.http.clickhouse import clickhouse_error, speaks_clickhouse
from tracereel_collector.http.otlp import JSON, MAX_MESSAGE, PROTOBUF
from tracereel_collector.ingest.accept import EveryEventRejectedError
from tracereel_collector.query.jaeger import legacy, v3

log = structlog.get_logger(__name__)

OTLP_PATHS = frozenset({"/v1/traces", "/v1/logs", "/v1/metrics"})
_GRPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8}
_UNAVAILABLE = 14


def grpc_code(status: int) -> int:
    """Return the `google.rpc.Status` code of an HTTP status; default: a retryable one."""
    return _GRPC_CODES.get(status, _UNAVAILABLE)


def add_error_handlers(app: FastAPI) -> None:
    """Register the exception handlers."""
    for kind in (
        CollectorError,
        HTTPException,
        RequestValidationError,
        ClientDisconnect,
        Exception,
    ):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, CollectorError):
        return _known(request, error)
    if isinstance(error, HTTPException):
        status = error.status_code
        code = {404: "not_found", 405: "method_not_allowed"}.get(status, "bad_request")
        message = f"{request.method} {request.scope['path']}: {error.detail}"
        hint = None if code == "bad_request" else "GET /docs lists the routes and their methods"
        return error_response(request, status, code, message, hint=hint, headers=error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        message = f"{first['loc'][-1]}: {first['msg']}; got {str(first.get('input'))[:80]!r}"
        return error_response(request, 400, "bad_request", message)
    if isinstance(error, ClientDisconnect):
        return error_response(request, 400, "disconnected", "the body is incomplete")
    # Senders drop data after a 500; 503 makes them retry.
    log.error("request_failed", path=request.scope["path"], exc_info=error)
    message = "the collector failed to handle the request; its log says why"
    return error_response(request, 503, "internal", message, headers={"Retry-After": "1"})


def _known(request: Request, error: CollectorError) -> Response:
    extra: dict[str, Any] = {}
    if isinstance(error, EveryEventRejectedError):
        extra = {"accepted": 0, "rejected": [each.as_dict() for each in error.rejected]}
    headers = {}
    if isinstance(error, RetryableError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 408:
        headers["Connection"] = "close"
    status, code, hint = error.status, error.code, error.hint
    return error_response(
        request, status, code, error.message, hint=hint, extra=extra, headers=headers
    )


def error_response(
    request: Request,
    status: int,
    code: str,
    message: str,
    *,
    hint: str | None = None,
    extra: Mapping[str, Any] = MappingProxyType({}),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Build an error response in the format of the route."""
    if request.scope["path"] in OTLP_PATHS and request.method == "POST":
        status_code = grpc_code(status)
        if request.headers.get("content-type", "").lower().startswith(JSON):
            document = {"code": status_code, "message": message[:MAX_MESSAGE]}
            return JSONResponse(document, status_code=status, headers=headers)
        body = Status(code=status_code, message=message[:MAX_MESSAGE])
        return Response(
            body.SerializeToString(), status_code=status, media_type=PROTOBUF, headers=headers
        )
    if request.scope["path"].startswith("/api/"):
        wording = v3 if request.scope["path"].startswith("/api/v3/") else legacy
        return JSONResponse(wording.failure(status, message), status_code=status, headers=headers)
    if speaks_clickhouse(request):
        return clickhouse_error(status, message, hint, headers or {})
    content = {"error": {"code": code, "message": message, "hint": hint}, **extra}
    return JSONResponse(content, status_code=status, headers=headers)
