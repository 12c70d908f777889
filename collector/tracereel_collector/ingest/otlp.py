"""Checking OTLP bodies: proved decodable by protobuf's own parser, counted, and left as they are."""

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.errors import BadRequestError


def count_spans(body: bytes) -> int:
    """How many spans an `ExportTraceServiceRequest` holds.

    Raises:
        BadRequestError: the body is not one.
    """
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise BadRequestError(
            f"the body is not an OTLP ExportTraceServiceRequest in protobuf: {error}"
        ) from error
    return sum(
        len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans
    )
