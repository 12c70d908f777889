"""`POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP."""

from functools import partial
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToJson

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import UnsupportedError
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.ingest.accept import OtlpAnswer
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES, Signal
from tracereel_collector.otlp_out.forward.forwarder import PATH_HEADER

PROTOBUF = "application/x-protobuf"
REGISTERED_PROTOBUF = "application/protobuf"
"""Registered name of the same; some exporters use it."""
JSON = "application/json"
MAX_MESSAGE = 2_000
"""Longest error message in characters; exporters read at most 4 MiB of a response."""
_json = partial(MessageToJson, always_print_fields_with_no_presence=True, indent=None)
router = ScopedRouter(KeyScope.WRITE)


def _described(signal: Signal) -> dict[str, Any]:
    """Describe the body for OpenAPI; FastAPI does not parse it."""
    name = signal.request.DESCRIPTOR.full_name
    return {
        "requestBody": {
            "description": f"`{name}`; may be compressed with gzip, deflate or zstd.",
            "content": {
                PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
                JSON: {"schema": {"type": "object"}},
            },
        }
    }


async def receive_otlp(signal: Signal, request: Request) -> Response:
    """Store the records of an OTLP request and answer in the form of its body."""
    parts, caller = parts_of(request), caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in {PROTOBUF, REGISTERED_PROTOBUF, JSON}:
        raise UnsupportedError(
            f"content-type {content_type!r} is not supported; expected {PROTOBUF} or {JSON}"
        )
    is_json = content_type == JSON
    async with body_of(request) as data:
        parts.gate.charge(caller, size=len(data))
        answer = await parts.accept.otlp(
            signal,
            data,
            tenant=caller.tenant,
            is_json=is_json,
            passed=request.headers.get(PATH_HEADER, ""),
        )
    parts.gate.charge(caller, records=answer.records)
    message = response_of(signal, answer)
    body = _json(message) if is_json else message.SerializeToString()
    return Response(body, media_type=content_type)


def _add_route(path: str, signal: Signal, summary: str, description: str) -> None:
    async def receive(request: Request) -> Response:
        return await receive_otlp(signal, request)

    # An endpoint that ends in a slash makes exporters post here; they follow no redirect.
    router.post(f"{path}/", include_in_schema=False)(receive)
    router.post(
        path,
        name=f"post_{path.removeprefix('/v1/')}",
        summary=summary,
        description=description,
        openapi_extra=_described(signal),
    )(receive)


_add_route(
    "/v1/traces",
    TRACES,
    "Receive OTLP spans",
    "Store spans durably before the 200; `partial_success` counts refused ones.",
)
_add_route(
    "/v1/logs",
    LOGS,
    "Receive OTLP log records",
    "Store log records durably; those that carry a tracereel event are stored as events.",
)
_add_route(
    "/v1/metrics", METRICS, "Receive OTLP metrics", "Store metric points durably before the 200."
)


def response_of(signal: Signal, answer: OtlpAnswer) -> Any:
    """Build the response message; `partial_success` is set if records were refused."""
    response = signal.response()
    if answer.refused or answer.message:
        setattr(response.partial_success, signal.rejected_field, answer.refused)
        response.partial_success.error_message = answer.message[:MAX_MESSAGE]
    return response
