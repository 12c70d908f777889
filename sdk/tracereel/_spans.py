"""The OpenTelemetry side of an execution: which provider, how a span starts and ends."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import ProxyTracerProvider, Span, Status, StatusCode, Tracer

from tracereel import semconv

SCOPE: Final = "tracereel"


@dataclass(frozen=True, slots=True)
class StartedSpan:
    """A span that has begun, its ids as the events write them, and the context it is current in."""

    span: Span
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    context: Context


class Spans:
    """Starts spans with the user's provider: given, else the global one, else one of our own.

    The global provider is looked up at each start, because programs set it late; never set here.
    """

    def __init__(self, provider: trace.TracerProvider | None, service: str | None) -> None:
        self._given = provider
        self._service = service
        self._private: SdkTracerProvider | None = None
        self._tracer: Tracer | None = None
        self._tracer_of: trace.TracerProvider | None = None

    def start(self, name: str, attributes: dict[str, Any], start_ns: int) -> StartedSpan:
        """Begin a span under whatever span is current."""
        around = trace.get_current_span().get_span_context()
        span = self._choose().start_span(name, attributes=attributes, start_time=start_ns)
        ids = span.get_span_context()
        parent = f"{around.span_id:016x}" if around.is_valid else None
        if ids.is_valid and ids.span_id != around.span_id:
            trace_id, span_id = f"{ids.trace_id:032x}", f"{ids.span_id:016x}"
        else:
            # A no-op provider hands back an invalid span, or the one around: ids of our own then.
            trace_id = f"{around.trace_id:032x}" if around.is_valid else os.urandom(16).hex()
            span_id = os.urandom(8).hex()
        return StartedSpan(span, trace_id, span_id, parent, trace.set_span_in_context(span))

    def _choose(self) -> Tracer:
        provider = self._given or trace.get_tracer_provider()
        if isinstance(provider, ProxyTracerProvider):
            if self._private is None:
                # Not `Resource.create`: it imports and starts threads, which hangs in forked children.
                resource = Resource({"service.name": self._service or "unknown_service"})
                # Sampled, so that what the program calls downstream is not told to drop its spans.
                self._private = SdkTracerProvider(
                    resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False
                )
            provider = self._private
        if self._tracer is None or self._tracer_of is not provider:
            self._tracer = provider.get_tracer(SCOPE)
            self._tracer_of = provider
        return self._tracer


def attributes_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that the fields of an event put on its span."""
    attributes: dict[str, Any] = {}
    for field, value in event.items():
        if value is not None and (names := semconv.SPAN_ATTRIBUTES.get(field)) is not None:
            for name in names:
                attributes[name] = value
    return attributes


def closing_attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """Those of them that were not known when the span began."""
    found = attributes_of(event)
    for field in semconv.KNOWN_AT_START:
        for name in semconv.SPAN_ATTRIBUTES[field]:
            found.pop(name, None)
    return found


def finish(
    span: Span, event: Mapping[str, Any], error: BaseException | None, *, end_ns: int, failed: bool
) -> None:
    """End a span with what its closing event says; the error of a failure is recorded."""
    try:
        if span.is_recording():
            span.set_attributes(closing_attributes(event))
            if failed and error is not None:
                _record(span, error)
                message = f"{event.get('error_type')}: {event.get('error_message')}"
                span.set_status(Status(StatusCode.ERROR, message))
    finally:
        span.end(end_time=end_ns)


def add_decision(span: Span, event: Mapping[str, Any]) -> None:
    """Show a decision on the span it was taken in."""
    if span.is_recording():
        shown = {name: event[name] for name in semconv.DECISION_ATTRIBUTES}
        span.add_event(
            semconv.SPAN_DECISION,
            attributes={name: value for name, value in shown.items() if value is not None},
        )


def _record(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception:  # noqa: BLE001 - the text of the exception is the user's code and may raise
        span.add_event("exception", {"exception.type": type(error).__qualname__})
