"""Re-encoding of OTLP requests by protobuf, for those that the engine cannot parse as received.

Protobuf treats a known field of the wrong type as unknown, and uses the last of several values of a
`oneof`; the engine refuses both. This is rare, so it is done only after a refusal.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.model import Kind, QueuedBody

_REQUESTS: dict[Kind, Any] = {
    Kind.SPANS: ExportTraceServiceRequest,
    Kind.LOGS: ExportLogsServiceRequest,
    Kind.METRICS: ExportMetricsServiceRequest,
}


def canonical(bodies: Sequence[QueuedBody]) -> list[QueuedBody]:
    """Return the requests without unknown fields, each field once and in order.

    A body that is not a request stays unchanged: the engine's refusal stands.
    """
    return [replace(body, data=_rewritten(body)) for body in bodies]


def _rewritten(body: QueuedBody) -> bytes:
    try:
        request = _REQUESTS[body.kind].FromString(body.data)
    except DecodeError:
        return body.data
    request.DiscardUnknownFields()
    return bytes(request.SerializeToString())
