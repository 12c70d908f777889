"""`POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP, as stock exporters send it."""

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.otlp_answers import JSON, PROTOBUF, encoded
from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import UnsupportedError
from tracereel_collector.forward.post import PATH_HEADER
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, TRACES, Signal

router = Surface(scope=Scope.WRITE)


def _described(signal: Signal) -> dict[str, Any]:
    """What OpenAPI says of the body; FastAPI cannot see it, because it is read raw."""
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


@router.post("/v1/traces", summary="Receive OTLP spans", openapi_extra=_described(TRACES))
async def post_traces(request: Request) -> Response:
    """A 200 means that the spans are durable, less those that `partial_success` counts."""
    return await _receive(TRACES, request)


@router.post("/v1/logs", summary="Receive OTLP log records", openapi_extra=_described(LOGS))
async def post_logs(request: Request) -> Response:
    """Records that are events of the contract go where `/v1/events` goes, the others are stored as logs."""
    return await _receive(LOGS, request)


@router.post("/v1/metrics", summary="Receive OTLP metrics", openapi_extra=_described(METRICS))
async def post_metrics(request: Request) -> Response:
    """A 200 means that the points are durable."""
    return await _receive(METRICS, request)


async def _receive(signal: Signal, request: Request) -> Response:
    parts = parts_of(request)
    caller = caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in {PROTOBUF, JSON}:
        raise UnsupportedError(
            f"content-type {content_type!r} is not supported; expected {PROTOBUF} or {JSON}"
        )
    is_json = content_type == JSON
    async with parts.bodies.read(request.stream(), request.headers) as data:
        parts.gate.charge(caller, size=len(data))
        answer = await parts.accept.otlp(
            signal,
            data,
            tenant=caller.tenant,
            is_json=is_json,
            passed=request.headers.get(PATH_HEADER, ""),
        )
    parts.gate.charge(caller, records=answer.records)
    return Response(encoded(signal, answer, is_json=is_json), media_type=content_type)
