"""Split a body that the store refuses into two that keep the sequence numbers."""

from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from tracereel_collector.model import QueuedBody
from tracereel_collector.queue.deleted import OTLP, otlp_scopes

_LINES = frozenset({"events", "heartbeats", "scores"})


def halves(body: QueuedBody) -> list[QueuedBody]:
    """Split a body into two with half of the records; empty if impossible."""
    if body.records < 2:
        return []
    if body.kind in OTLP:
        return _halves_of_otlp(body)
    lines = body.data.split(b"\n") if body.kind in _LINES else []
    if len(lines) != body.records:
        return []
    middle = len(lines) // 2
    return _parts(body, b"\n".join(lines[:middle]), b"\n".join(lines[middle:]), middle)


def _halves_of_otlp(body: QueuedBody) -> list[QueuedBody]:
    try:
        request = OTLP[body.kind][0].FromString(body.data)
    except DecodeError:
        return []
    records = [
        (resource, scope, record)
        for resource, scope, of_scope in otlp_scopes(body.kind, request)
        for record in of_scope
    ]
    if len(records) != body.records:
        return []
    middle = len(records) // 2
    first, second = (_request_of(body.kind, part) for part in (records[:middle], records[middle:]))
    return _parts(body, first, second, middle)


def _request_of(kind: str, records: list[tuple[Any, Any, Any]]) -> bytes:
    message, name = OTLP[kind]
    request = message()
    of_resource = of_scope = into_resource = into_scope = None
    for resource, scope, record in records:
        if resource is not of_resource:
            into_resource = getattr(request, f"resource_{kind}").add()
            into_resource.resource.CopyFrom(resource.resource)
            into_resource.schema_url = resource.schema_url
            of_resource, of_scope = resource, None
        if scope is not of_scope:
            into_scope = getattr(into_resource, f"scope_{kind}").add()
            into_scope.scope.CopyFrom(scope.scope)
            into_scope.schema_url = scope.schema_url
            of_scope = scope
        getattr(into_scope, name).append(record)
    return bytes(request.SerializeToString())


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
