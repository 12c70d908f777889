"""Checking OTLP bodies: proved decodable by protobuf's own parser, counted, and left as they are.

Only a body that must change is written anew: one with resources of another tenant, or with something
to hide where redaction is on.
"""

from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.claims import remove_foreign
from tracereel_collector.ingest.redaction import Redactor


@dataclass(frozen=True, slots=True)
class CheckedSpans:
    """What of a trace request may enter."""

    data: bytes
    spans: int
    refused: int = 0
    reason: str | None = None


def check_spans(body: bytes, *, tenant: str, redactor: Redactor | None = None) -> CheckedSpans:
    """The spans of an `ExportTraceServiceRequest` that a tenant may send.

    Raises:
        BadRequestError: the body is not one.
    """
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise BadRequestError(
            f"the body is not an OTLP ExportTraceServiceRequest in protobuf: {error}"
        ) from error
    refused, reason = remove_foreign(request, tenant)
    hidden = redactor is not None and redactor.otlp(request)
    spans = sum(
        len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans
    )
    data = request.SerializeToString() if hidden or reason is not None else body
    return CheckedSpans(data, spans, refused, reason)
