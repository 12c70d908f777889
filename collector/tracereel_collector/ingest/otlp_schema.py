"""OTLP messages as Python classes: the official ones and two variants of their descriptors.

`bounded` decodes values as deep as the store reads them. Deeper lists and maps become a message with a
required field that is never sent, so that `IsInitialized()`, which runs in C, detects deep values.
`lenient` has bytes for every string: it decodes requests that the official classes refuse for
invalid UTF-8.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from tracereel_collector.model import OTLP_DEPTH, Kind

_FILES = (
    common_pb2,
    resource_pb2,
    trace_pb2,
    logs_pb2,
    metrics_pb2,
    trace_service_pb2,
    logs_service_pb2,
    metrics_service_pb2,
)
_COMMON = "opentelemetry.proto.common.v1"
_TOO_DEEP = "tracereel.TooDeep"
Change = Callable[[FileDescriptorProto], None]


def _variant(change: Change, *extra: FileDescriptorProto) -> DescriptorPool:
    """Return changed copies of OTLP's files, in a separate pool so that names can stay."""
    pool = DescriptorPool()
    for file in extra:
        pool.Add(file)
    for module in _FILES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        change(file)
        pool.Add(file)
    return pool


def _too_deep() -> FileDescriptorProto:
    file = FileDescriptorProto(name="tracereel/too_deep.proto", package="tracereel")
    file.message_type.add(name="TooDeep").field.add(
        name="never",
        number=1000,
        type=FieldDescriptorProto.TYPE_BOOL,
        label=FieldDescriptorProto.LABEL_REQUIRED,
    )
    return file


def _unroll(file: FileDescriptorProto) -> None:
    """Replace the recursive `AnyValue` by a chain of `OTLP_DEPTH` types that ends in `TooDeep`."""
    if file.package != _COMMON:
        return
    file.dependency.append("tracereel/too_deep.proto")
    original = {message.name: message for message in file.message_type}
    for level in range(OTLP_DEPTH):
        for name in ("AnyValue", "ArrayValue", "KeyValueList", "KeyValue"):
            copy = file.message_type.add()
            copy.CopyFrom(original[name])
            copy.name = f"{name}{level}"
            _refer(copy, level if name != "AnyValue" else level - 1)
    _refer(original["AnyValue"], OTLP_DEPTH - 1)


def _refer(message: DescriptorProto, level: int) -> None:
    """Point fields of common types to the types of a level."""
    for field in message.field:
        if field.type_name.startswith(f".{_COMMON}."):
            field.type_name = f"{field.type_name}{level}" if level >= 0 else f".{_TOO_DEEP}"


def _strings_to_bytes(file: FileDescriptorProto) -> None:
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting.extend(message.nested_type)
        for field in message.field:
            if field.type == FieldDescriptorProto.TYPE_STRING:
                field.type = FieldDescriptorProto.TYPE_BYTES


_BOUNDED = _variant(_unroll, _too_deep())
_LENIENT = _variant(_strings_to_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """OTLP signal: its messages and the names of its records."""

    name: str
    kind: Kind
    request: Any
    bounded: Any
    """Request class with values as deep as the store reads them."""
    lenient: Any
    """Request class with bytes for strings."""
    response: Any
    service: str
    rejected_field: str
    records: str

    def resources(self, request: Any) -> Any:
        """Return the list of resources of a request."""
        return getattr(request, f"resource_{self.kind}")

    def scopes(self, resource: Any) -> Any:
        """Return the list of scopes of a resource."""
        return getattr(resource, f"scope_{self.kind}")


def _signal(name: str, kind: Kind, module: Any, service: str, records: str, counted: str) -> Signal:
    request = getattr(module, f"Export{service}Request")
    full_name = request.DESCRIPTOR.full_name
    return Signal(
        name=name,
        kind=kind,
        request=request,
        bounded=GetMessageClass(_BOUNDED.FindMessageTypeByName(full_name)),
        lenient=GetMessageClass(_LENIENT.FindMessageTypeByName(full_name)),
        response=getattr(module, f"Export{service}Response"),
        service=module.DESCRIPTOR.services_by_name[service].full_name,
        rejected_field=f"rejected_{counted}",
        records=records,
    )


TRACES = _signal("traces", Kind.SPANS, trace_service_pb2, "TraceService", "spans", "spans")
LOGS = _signal("logs", Kind.LOGS, logs_service_pb2, "LogsService", "log_records", "log_records")
METRICS = _signal(
    "metrics", Kind.METRICS, metrics_service_pb2, "MetricsService", "metrics", "data_points"
)
SIGNALS = (TRACES, LOGS, METRICS)
