"""Traces in OTLP JSON and trace summaries, as in Jaeger's API v3."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from tracereel_collector.query.jaeger.rows import (
    KINDS,
    NAMELESS,
    STATUSES,
    JaegerSpanRow,
    JaegerTrace,
    OutlineRow,
)
from tracereel_collector.query.jaeger.values import TEXT, Types, any_value


def failure(status: int, message: str) -> dict[str, Any]:
    """Return an error in the format of Jaeger's gateway."""
    return {"error": {"httpCode": status, "message": message}}


def traces_document(traces: Iterable[JaegerTrace]) -> dict[str, Any]:
    """Return traces in one document, wrapped as in Jaeger's streams; zero fields are left out."""
    found = [resource for trace in traces for resource in _resources(trace.spans)]
    return {"result": {"resourceSpans": found}}


def _resources(spans: list[JaegerSpanRow]) -> Iterable[dict[str, Any]]:
    def resource(span: JaegerSpanRow) -> Any:
        return sorted(span.resource.items())

    def scope(span: JaegerSpanRow) -> tuple[str, str]:
        return span.scope, span.scope_version

    for _, of_resource in groupby(sorted(spans, key=resource), key=resource):
        ordered = sorted(of_resource, key=scope)
        yield {
            "resource": _filled(attributes=_attributes(_named(ordered[0]), ordered[0].known_types)),
            "scopeSpans": [
                {
                    "scope": _filled(name=name, version=version),
                    "spans": [_span(each) for each in of_scope],
                }
                for (name, version), of_scope in groupby(ordered, key=scope)
            ],
        }


def _named(span: JaegerSpanRow) -> dict[str, str]:
    return {**span.resource, "service.name": span.service_shown}


def _span(span: JaegerSpanRow) -> dict[str, Any]:
    ended = span.began + span.took
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **_filled(
            traceState=span.trace_state,
            parentSpanId=span.parent_span_id,
            name=span.name,
            kind=KINDS.get(span.kind, 0),
            startTimeUnixNano=str(span.began or ""),
            endTimeUnixNano=str(ended or ""),
            attributes=_attributes(span.attributes, span.known_types),
            events=[
                _filled(
                    timeUnixNano=str(at or ""),
                    name=name,
                    attributes=_attributes(attributes, span.known_types),
                )
                for at, name, attributes in span.ordered_events
            ],
            links=[
                {
                    "traceId": trace_id,
                    "spanId": span_id,
                    **_filled(traceState=state, attributes=_attributes(attributes, {})),
                }
                for trace_id, span_id, state, attributes in span.links
            ],
        ),
        "status": _filled(message=span.status_message, code=STATUSES.get(span.status, 0)),
    }


def _attributes(attributes: dict[str, str], types: Types) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": any_value(text, types.get(key, TEXT))}
        for key, text in sorted(attributes.items())
    ]


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def summary(spans: list[OutlineRow]) -> dict[str, Any]:
    """Return a trace summary; the root is the earliest span without a parent."""
    present = {span.span_id for span in spans}
    rootless = [span for span in spans if span.parent_span_id not in present]
    root = next((span for span in rootless if not span.parent_span_id), None)
    root = root or (rootless or spans)[0]
    counts = Counter(span.service or NAMELESS for span in spans)
    failed = Counter(span.service or NAMELESS for span in spans if span.failed)
    return {
        "traceId": spans[0].trace_id,
        **_filled(
            rootServiceName=root.service or NAMELESS,
            rootOperationName=root.name,
            minStartTimeUnixNano=str(min(span.began for span in spans)),
            maxEndTimeUnixNano=str(max(span.began + span.took for span in spans)),
            spanCount=len(spans),
            errorSpanCount=failed.total(),
            orphanSpanCount=sum(bool(span.parent_span_id) for span in rootless),
            services=[
                {
                    "name": name,
                    **_filled(spanCount=counts[name], errorSpanCount=failed[name]),
                }
                for name in sorted(counts)
            ],
        ),
    }
