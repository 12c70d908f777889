"""`POST /v1/traces`: OTLP over HTTP, as the stock exporter sends it."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracereel_collector.api.errors import PROTOBUF
from tracereel_collector.api.parts import parts_of
from tracereel_collector.errors import UnsupportedError

router = APIRouter()
_SUCCESS = ExportTraceServiceResponse().SerializeToString()


@router.post("/v1/traces", summary="Receive OTLP spans")
async def post_traces(request: Request) -> Response:
    """A 200 means that the spans are durable."""
    parts = parts_of(request)
    tenant = parts.keyring.tenant_of(request.headers)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != PROTOBUF:
        raise UnsupportedError(
            f"content-type {content_type!r} is not supported; expected {PROTOBUF}"
        )
    async with parts.bodies.read(request.stream(), request.headers) as data:
        await parts.accept.traces(data, tenant=tenant)
    return Response(_SUCCESS, media_type=PROTOBUF)
