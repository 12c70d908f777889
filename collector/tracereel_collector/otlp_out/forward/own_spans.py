"""Conversion of events that describe a whole span into OTLP, with the store's attribute names."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracereel import semconv
from tracereel_collector.store.dialects.own import MORE_ATTRIBUTES, OPERATIONS

MARK = b'"span_start_unix_nano"'
_ATTRIBUTES = {**semconv.SPAN_ATTRIBUTES, **MORE_ATTRIBUTES}
_MAX = 2**63 - 1


def request_of(lines: Iterable[bytes]) -> tuple[bytes, int]:
    """Return the serialised request and its number of spans."""
    request = ExportTraceServiceRequest()
    scopes: dict[str, Any] = {}
    count = 0
    for line in lines:
        if MARK not in line:
            continue
        event = msgspec.json.decode(line)
        if not _is_whole(event):
            continue
        service = str(event.get("service") or "")
        if service not in scopes:
            resource = request.resource_spans.add()
            resource.resource.attributes.add(key="service.name").value.string_value = service
            scopes[service] = resource.scope_spans.add()
            scopes[service].scope.name = "tracereel"
        _fill(scopes[service].spans.add(), event)
        count += 1
    return request.SerializeToString(), count


def _is_whole(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and str(event.get("event_type")).startswith("agent.")
        and bool(event.get("span_id"))
        and bool(event.get("otel_trace_id"))
        and bool(event.get("span_name"))
        and 0 < int(event.get("span_start_unix_nano") or 0) <= _MAX
    )


def _fill(span: Span, event: dict[str, Any]) -> None:
    span.trace_id = bytes.fromhex(event["otel_trace_id"])
    span.span_id = bytes.fromhex(event["span_id"])
    span.parent_span_id = bytes.fromhex(event.get("parent_span_id") or "")
    span.name = event["span_name"]
    called = event["event_type"] == semconv.LLM_CALLED
    span.kind = Span.SPAN_KIND_CLIENT if called else Span.SPAN_KIND_INTERNAL
    span.start_time_unix_nano = event["span_start_unix_nano"]
    end = event.get("span_end_unix_nano") or 0
    span.end_time_unix_nano = max(span.start_time_unix_nano, min(int(end), _MAX))
    for field, value in event.items():
        names = _ATTRIBUTES.get(field, ())
        if called and field == "llm_model":
            names = (semconv.ANSWERED_BY, "llm.model")
        if field == semconv.PIPELINE_FIELD and event["event_type"] != semconv.PIPELINE_COMPLETED:
            continue
        if value is not None:
            for name in names:
                _put(span.attributes.add(key=name).value, value)
    if operation := OPERATIONS.get(event["event_type"]):
        span.attributes.add(key=semconv.OPERATION).value.string_value = operation
    failed = event["event_type"] == semconv.EXECUTION_FAILED or event.get("status") == "failed"
    if failed:
        error = (str(event.get("error_type") or ""), str(event.get("error_message") or ""))
        span.status.code = Status.STATUS_CODE_ERROR
        span.status.message = ": ".join(filter(None, error))


def _put(place: Any, value: Any) -> None:
    match value:
        case bool():
            place.bool_value = value
        case int() if -_MAX <= value <= _MAX:
            place.int_value = value
        case float():
            place.double_value = value
        case str():
            place.string_value = value
        case _:
            place.string_value = json.dumps(value, ensure_ascii=False)
