"""Conversion of OTLP requests into rows, for `/api/transform`."""

import base64
import json
from collections.abc import Iterable
from typing import Any

from tracereel_collector.query.jaeger.rows import JaegerSpanRow, JaegerTrace
from tracereel_collector.query.jaeger.values import BOOL, BYTES, DOUBLE, INT, LIST, MAP, TEXT

_KINDS = {1: "Internal", 2: "Server", 3: "Client", 4: "Producer", 5: "Consumer"}
_STATUS = {1: "Ok", 2: "Error"}
_TYPES = {
    "string_value": TEXT,
    "bool_value": BOOL,
    "int_value": INT,
    "double_value": DOUBLE,
    "array_value": LIST,
    "kvlist_value": MAP,
    "bytes_value": BYTES,
}


def traces_of(request: Any) -> list[JaegerTrace]:
    """Return the traces of an `ExportTraceServiceRequest`, in order of appearance."""
    found: dict[str, list[JaegerSpanRow]] = {}
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                row = _row(resource.resource, scope.scope, span)
                found.setdefault(row.trace_id, []).append(row)
    return [JaegerTrace(trace_id, spans) for trace_id, spans in found.items()]


def _row(resource: Any, scope: Any, span: Any) -> JaegerSpanRow:
    types: dict[str, int] = {}
    named = _texts(resource.attributes, types)
    return JaegerSpanRow(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex().strip("0") and span.parent_span_id.hex(),
        trace_state=span.trace_state,
        name=span.name,
        kind=_KINDS.get(span.kind, "Unspecified"),
        service=named.get("service.name", ""),
        resource=named,
        scope=scope.name,
        scope_version=scope.version,
        attributes=_texts(span.attributes, types),
        began=span.start_time_unix_nano,
        took=max(0, span.end_time_unix_nano - span.start_time_unix_nano),
        status=_STATUS.get(span.status.code, "Unset"),
        status_message=span.status.message,
        event_times=[each.time_unix_nano for each in span.events],
        event_names=[each.name for each in span.events],
        event_attributes=[_texts(each.attributes, types) for each in span.events],
        link_traces=[each.trace_id.hex() for each in span.links],
        link_spans=[each.span_id.hex() for each in span.links],
        link_states=[each.trace_state for each in span.links],
        link_attributes=[_texts(each.attributes, types) for each in span.links],
        types=types,
        rank=0,
        emitter="",
    )


def _texts(attributes: Iterable[Any], types: dict[str, int]) -> dict[str, str]:
    found = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        if kind is not None:
            types[each.key] = _TYPES.get(kind, TEXT)
        found[each.key] = _text(each.value, kind)
    return found


def _text(value: Any, kind: str | None) -> str:
    plain = _plain(value, kind)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))


def _plain(value: Any, kind: str | None) -> Any:
    """Return a value in JSON form."""
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_plain(each, each.WhichOneof("value")) for each in inner.values]
    if kind == "kvlist_value":
        return {
            each.key: _plain(each.value, each.value.WhichOneof("value")) for each in inner.values
        }
    return base64.b64encode(inner).decode() if kind == "bytes_value" else inner
