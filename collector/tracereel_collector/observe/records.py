"""A span or a log line of the collector, and OTLP requests made of many."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SCOPE = "tracereel.collector"
MAX_TEXT = 4096
_SEVERITIES = {
    "debug": SeverityNumber.SEVERITY_NUMBER_DEBUG,
    "info": SeverityNumber.SEVERITY_NUMBER_INFO,
    "warning": SeverityNumber.SEVERITY_NUMBER_WARN,
    "error": SeverityNumber.SEVERITY_NUMBER_ERROR,
    "critical": SeverityNumber.SEVERITY_NUMBER_FATAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSpan:
    """Something that the collector did."""

    name: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Mapping[str, Any]
    is_server: bool = False
    failed: bool = False
    trace_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    parent_span_id: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLine:
    """Something that the collector said."""

    unix_nano: int
    level: str
    event: str
    attributes: Mapping[str, Any]


def spans_request(spans: Iterable[OwnSpan], resource: Mapping[str, Any]) -> bytes:
    """As OTLP has it."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    _fill(group.resource.attributes, resource)
    scope = group.scope_spans.add()
    scope.scope.name = SCOPE
    for span in spans:
        made = scope.spans.add(
            trace_id=span.trace_id,
            span_id=secrets.token_bytes(8),
            parent_span_id=span.parent_span_id,
            name=span.name,
            kind=Span.SPAN_KIND_SERVER if span.is_server else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=span.start_unix_nano,
            end_time_unix_nano=span.end_unix_nano,
        )
        _fill(made.attributes, span.attributes)
        if span.failed:
            made.status.code = Status.STATUS_CODE_ERROR
    return bytes(request.SerializeToString())


def lines_request(lines: Iterable[OwnLine], resource: Mapping[str, Any]) -> bytes:
    """As OTLP has it."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    _fill(group.resource.attributes, resource)
    scope = group.scope_logs.add()
    scope.scope.name = SCOPE
    for line in lines:
        made = scope.log_records.add(
            time_unix_nano=line.unix_nano,
            observed_time_unix_nano=line.unix_nano,
            severity_number=_SEVERITIES.get(line.level, SeverityNumber.SEVERITY_NUMBER_UNSPECIFIED),
            severity_text=line.level,
        )
        made.body.string_value = line.event[:MAX_TEXT]
        _fill(made.attributes, line.attributes)
    return bytes(request.SerializeToString())


def _fill(place: Any, attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        place.add(key=key, value=_value(value))


def _value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int() if -(2**63) <= value < 2**63:
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            text = str(value).encode("utf-8", "replace").decode()
            return AnyValue(string_value=text[:MAX_TEXT])
