"""`POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP."""

import json
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import UnsupportedError
from tracereel_collector.http.dependencies import caller_of, parts_of
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.ingest.accept import OtlpAnswer
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES, Signal
from tracereel_collector.otlp_out.forward.forwarder import PATH_HEADER

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MAX_MESSAGE = 2_000
"""Longest error message in characters; exporters read at most 4 MiB of a response."""
router = ScopedRouter()


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


async def _receive(signal: Signal, request: Request) -> Response:
    parts, caller = parts_of(request), caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in {PROTOBUF, JSON}:
        raise UnsupportedError(
            f"content-type {content_type!r} is not supported; expected {PROTOBUF} or {JSON}"
        )
    is_json = content_type == JSON
    async with parts.bodies.read(request.stream(), request.headers, tenant=caller.tenant) as data:
        parts.gate.charge(caller, size=len(data))
        answer = await parts.accept.otlp(
            signal,
            data,
            tenant=caller.tenant,
            is_json=is_json,
            passed=request.headers.get(PATH_HEADER, ""),
        )
    parts.gate.charge(caller, records=answer.records)
    return Response(_encoded(signal, answer, is_json=is_json), media_type=content_type)


def _add_route(path: str, signal: Signal, summary: str, description: str) -> None:
    async def receive(request: Request) -> Response:
        return await _receive(signal, request)

    router.post(
        path,
        scope=KeyScope.WRITE,
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


def _encoded(signal: Signal, answer: OtlpAnswer, *, is_json: bool) -> bytes:
    """Encode the body of a successful response."""
    response = response_of(signal, answer)
    if not is_json:
        return bytes(response.SerializeToString())
    document: dict[str, Any] = {}
    if response.HasField("partial_success"):
        said = response.partial_success
        head, *rest = signal.rejected_field.split("_")
        name = head + "".join(word.capitalize() for word in rest)
        # OTLP JSON encodes 64-bit integers as strings.
        document["partialSuccess"] = {
            name: str(getattr(said, signal.rejected_field)),
            "errorMessage": said.error_message,
        }
    return json.dumps(document).encode()
