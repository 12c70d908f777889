"""Traces in the JSON of Jaeger's legacy API, which its UI uses."""

from collections.abc import Iterable, Sequence
from typing import Any

from tracereel_collector.query.jaeger.rows import STATE, JaegerSpanRow, JaegerTrace
from tracereel_collector.query.jaeger.values import TEXT, Types, tag

CHILD_OF, FOLLOWS_FROM = "CHILD_OF", "FOLLOWS_FROM"


def shown(trace_id: str) -> str:
    """Shorten an id with a zero upper half to 16 digits, as the legacy API does."""
    return trace_id[16:] if len(trace_id) == 32 and not trace_id[:16].strip("0") else trace_id


def envelope(
    data: Any, *, total: int = 0, errors: Sequence[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return data in the envelope of all responses."""
    return {"data": data, "total": total, "limit": 0, "offset": 0, "errors": errors}


def failure(status: int, message: str) -> dict[str, Any]:
    """Return an error in the envelope."""
    return envelope(None, errors=[{"code": status, "msg": message}])


def trace_document(trace: JaegerTrace, *, raw: bool = False) -> dict[str, Any]:
    """Return a trace; `raw` keeps the attribute order and omits warnings."""
    processes: dict[tuple[Any, ...], str] = {}
    described: dict[str, Any] = {}
    present = {span.span_id for span in trace.spans}
    spans = []
    for span in trace.spans:
        process = _process(span, raw=raw)
        key = (process["serviceName"], *((each["key"], each["value"]) for each in process["tags"]))
        name = processes.setdefault(key, f"p{len(processes) + 1}")
        described[name] = process
        spans.append(_span(span, name, present=present, raw=raw))
    warnings = [f"only the first {len(spans)} spans are shown"] if trace.cut else None
    return {
        "traceID": shown(trace.trace_id),
        "spans": spans,
        "processes": described,
        "warnings": warnings,
    }


def _span(span: JaegerSpanRow, process: str, *, present: set[str], raw: bool) -> dict[str, Any]:
    return {
        "traceID": shown(span.trace_id),
        "spanID": span.span_id,
        "operationName": span.name,
        "references": _references(span),
        # Microseconds, truncated like in Jaeger.
        "startTime": span.began // 1_000,
        "duration": span.took // 1_000,
        "tags": _tags(span, raw=raw),
        "logs": _logs(span, raw=raw),
        "processID": process,
        "warnings": None if raw else _warnings(span, present) or None,
    }


def _references(span: JaegerSpanRow) -> list[dict[str, str]]:
    """Return references, parent first: clients use the first `CHILD_OF` as the parent."""
    found = [(CHILD_OF, span.trace_id, span.parent_span_id)] if span.parent_span_id else []
    found += [(FOLLOWS_FROM, trace_id, span_id) for trace_id, span_id, _, _ in span.links]
    return [
        {"refType": kind, "traceID": shown(trace_id), "spanID": span_id}
        for kind, trace_id, span_id in found
    ]


def _tags(span: JaegerSpanRow, *, raw: bool) -> list[dict[str, Any]]:
    """Return scope, attributes, and the OpenTelemetry fields that Jaeger represents as tags."""
    before = {"otel.scope.name": span.scope, "otel.scope.version": span.scope_version}
    kind = "" if span.kind == "Unspecified" else span.kind.lower()
    status = "" if span.status == "Unset" else span.status.upper()
    found = _texts(before)
    found += _pairs(span.attributes.items(), span.known_types, raw=raw)
    found += _texts({"span.kind": kind, "otel.status_code": status})
    if span.status == "Error":
        found.append({"key": "error", "type": "bool", "value": True})
    return found + _texts(
        {"otel.status_description": span.status_message, "w3c.tracestate": span.trace_state}
    )


def _texts(values: dict[str, str]) -> list[dict[str, Any]]:
    return [tag(key, text, TEXT) for key, text in values.items() if text]


def _pairs(items: Iterable[tuple[str, str]], types: Types, *, raw: bool) -> list[dict[str, Any]]:
    ordered = items if raw else sorted(items)
    return [tag(key, text, types.get(key, TEXT)) for key, text in ordered]


def _logs(span: JaegerSpanRow, *, raw: bool) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": at // 1_000,
            "fields": _texts({"event": name})
            + _pairs(attributes.items(), span.known_types, raw=raw),
        }
        for at, name, attributes in span.ordered_events
    ]


def _process(span: JaegerSpanRow, *, raw: bool) -> dict[str, Any]:
    others = [(key, text) for key, text in span.resource.items() if key != "service.name"]
    return {
        "serviceName": span.service_shown,
        "tags": _pairs(others, span.known_types, raw=raw),
    }


def _warnings(span: JaegerSpanRow, present: set[str]) -> list[str]:
    found = []
    if span.parent_span_id and span.parent_span_id not in present:
        found.append(
            f"parent span ID={span.parent_span_id} is not in the trace;"
            " skipping clock skew adjustment"
        )
    if span.is_open:
        found.append(f"{span.attributes[STATE]}: no event closed it")
    return found
