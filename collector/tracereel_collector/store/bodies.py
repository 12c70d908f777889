"""Encoding of raw bodies for an insert: a short header before each body, which stays unchanged."""

from collections.abc import Iterable, Sequence
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


def rows_of_events(bodies: Iterable[QueuedBody]) -> bytes:
    """Encode bodies of JSON lines as RowBinary: tenant, first number, arrival time, body."""
    parts: list[bytes] = []
    for body in bodies:
        tenant = body.tenant.encode()
        parts += (
            _varint(len(tenant)),
            tenant,
            body.first_sequence_number.to_bytes(8, "little"),
            body.received_unix_nano.to_bytes(8, "little"),
            _varint(len(body.data)),
            body.data,
        )
    return b"".join(parts)


def messages_of_requests(bodies: Iterable[QueuedBody]) -> bytes:
    """Encode OTLP requests as length-delimited `Body` messages for the `otlp_*_in` tables."""
    parts: list[bytes] = []
    for body in bodies:
        tenant = body.tenant.encode()
        head = (
            b"\x0a"
            + _varint(len(tenant))
            + tenant
            + b"\x10"
            + _varint(body.first_sequence_number)
            + b"\x18"
            + _varint(body.received_unix_nano)
            + b"\x22"
            + _varint(len(body.data))
        )
        parts += (_varint(len(head) + len(body.data)), head, body.data)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def canonical(bodies: Sequence[QueuedBody]) -> list[QueuedBody]:
    """Return OTLP requests as protobuf writes them, for those that the engine cannot parse.

    Protobuf treats a known field of the wrong type as unknown, and uses the last of several values of a
    `oneof`; the engine refuses both. A body that is not a request stays unchanged.
    """
    return [replace(body, data=_rewritten(body)) for body in bodies]


def _rewritten(body: QueuedBody) -> bytes:
    try:
        request = _REQUESTS[body.kind].FromString(body.data)
    except DecodeError:
        return body.data
    request.DiscardUnknownFields()
    return bytes(request.SerializeToString())
