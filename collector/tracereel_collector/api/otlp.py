"""`POST /v1/traces`: OTLP over HTTP, as the stock exporter sends it."""

from fastapi import Request
from fastapi.responses import Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracereel_collector.api.errors import PROTOBUF
from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import UnsupportedError

router = Surface(scope=Scope.WRITE)
_SUCCESS = ExportTraceServiceResponse().SerializeToString()


@router.post("/v1/traces", summary="Receive OTLP spans")
async def post_traces(request: Request) -> Response:
    """A 200 means that the spans are durable."""
    parts = parts_of(request)
    caller = caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != PROTOBUF:
        raise UnsupportedError(
            f"content-type {content_type!r} is not supported; expected {PROTOBUF}"
        )
    async with parts.bodies.read(request.stream(), request.headers) as data:
        parts.gate.charge(caller, size=len(data))
        _, checked = await parts.accept.traces(data, tenant=caller.tenant)
    parts.gate.charge(caller, records=checked.spans + checked.refused)
    if not checked.refused:
        return Response(_SUCCESS, media_type=PROTOBUF)
    partly = ExportTraceServiceResponse()
    partly.partial_success.rejected_spans = checked.refused
    partly.partial_success.error_message = checked.reason or ""
    return Response(partly.SerializeToString(), media_type=PROTOBUF)
