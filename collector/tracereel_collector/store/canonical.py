"""OTLP requests as protobuf itself would write them, for those the engine cannot read as they came.

Protobuf takes a known field of the wrong type for an unknown one, and the last of several values of a
`oneof`; the engine refuses both. It is rare enough to find out by the refusal.
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
    """The same requests without unknown fields, each field once and in order.

    A body that is no request at all stays as it is: the engine's refusal of it stands.
    """
    return [replace(body, data=_rewritten(body)) for body in bodies]


def _rewritten(body: QueuedBody) -> bytes:
    try:
        request = _REQUESTS[body.kind].FromString(body.data)
    except DecodeError:
        return body.data
    request.DiscardUnknownFields()
    return bytes(request.SerializeToString())
