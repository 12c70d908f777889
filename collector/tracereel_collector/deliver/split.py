"""Split a body that the store refuses into two that keep the sequence numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.model import QueuedBody


@dataclass(frozen=True, slots=True)
class _Otlp:
    """Field names of the records in an OTLP request."""

    request: Any
    resources: str
    scopes: str
    records: str


_OTLP = {
    "spans": _Otlp(ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
    "logs": _Otlp(ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
}

_LINES = frozenset({"events", "heartbeats", "scores"})


def halves(body: QueuedBody) -> list[QueuedBody]:
    """Split a body into two with half of the records; empty if impossible."""
    if body.records < 2:
        return []
    otlp = _OTLP.get(body.kind)
    if otlp is not None:
        return _halves_of_otlp(body, otlp)
    lines = body.data.split(b"\n") if body.kind in _LINES else []
    if len(lines) != body.records:
        return []
    middle = len(lines) // 2
    return _parts(body, b"\n".join(lines[:middle]), b"\n".join(lines[middle:]), middle)


def _halves_of_otlp(body: QueuedBody, otlp: _Otlp) -> list[QueuedBody]:
    try:
        request = otlp.request.FromString(body.data)
    except DecodeError:
        return []
    records = list(_records(request, otlp))
    if len(records) != body.records:
        return []
    middle = len(records) // 2
    first, second = (
        _request_of(part, otlp).SerializeToString() for part in (records[:middle], records[middle:])
    )
    return _parts(body, first, second, middle)


def _records(request: Any, otlp: _Otlp) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each record with its resource and scope, in sequence order."""
    for resource in getattr(request, otlp.resources):
        for scope in getattr(resource, otlp.scopes):
            for record in getattr(scope, otlp.records):
                yield resource, scope, record


def _request_of(records: list[tuple[Any, Any, Any]], otlp: _Otlp) -> Any:
    request = otlp.request()
    of_resource = of_scope = into_resource = into_scope = None
    for resource, scope, record in records:
        if resource is not of_resource:
            into_resource, of_resource, of_scope = (
                getattr(request, otlp.resources).add(),
                resource,
                None,
            )
            into_resource.resource.CopyFrom(resource.resource)
            into_resource.schema_url = resource.schema_url
        if scope is not of_scope:
            into_scope, of_scope = getattr(into_resource, otlp.scopes).add(), scope
            into_scope.scope.CopyFrom(scope.scope)
            into_scope.schema_url = scope.schema_url
        getattr(into_scope, otlp.records).append(record)
    return request


def _parts(body: QueuedBody, first: bytes, second: bytes, middle: int) -> list[QueuedBody]:
    return [
        replace(body, records=middle, data=first),
        replace(
            body,
            first_sequence_number=body.first_sequence_number + middle,
            records=body.records - middle,
            data=second,
        ),
    ]
