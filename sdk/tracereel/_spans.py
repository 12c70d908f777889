"""The OpenTelemetry side of an execution: which provider, how a span starts and ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

from tracereel import semconv
from tracereel._clock import random_id

SCOPE: Final = "tracereel"
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


@dataclass(frozen=True, slots=True)
class StartedSpan:
    """A span that has begun, its ids as the events write them, and the context it is current in."""

    span: Span
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    context: Context


class Spans:
    """Starts spans with the user's provider: given, else the global one.

    The global provider is looked up at each start, because programs set it late; never set here.
    Without any, a span is only its ids: nobody could see more of it, and making it would cost most
    of what a traced call costs.
    """

    def __init__(
        self,
        provider: trace.TracerProvider | None,
        on_provider: Callable[[trace.TracerProvider], None] = lambda _provider: None,
    ) -> None:
        self._given = provider
        self._on_provider = on_provider
        self._tracer: Tracer | None = None
        self._tracer_of: trace.TracerProvider | None = None

    def start(
        self,
        name: str,
        attributes: dict[str, Any],
        start_ns: int,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> StartedSpan:
        """Begin a span under whatever span is current, or under that of a context."""
        around = trace.get_current_span(context).get_span_context()
        parent = f"{around.span_id:016x}" if around.is_valid else None
        tracer = self._choose()
        if tracer is None:
            span = _unseen(around)
            ids = span.get_span_context()
        else:
            span = tracer.start_span(
                name, context, kind, attributes=attributes, start_time=start_ns
            )
            ids = span.get_span_context()
            if not ids.is_valid or ids.span_id == around.span_id:
                # A no-op provider hands back an invalid span, or the one around: ids of our own.
                ids = _unseen(around).get_span_context()
        return StartedSpan(
            span,
            f"{ids.trace_id:032x}",
            f"{ids.span_id:016x}",
            parent,
            trace.set_span_in_context(span, context),
        )

    def _choose(self) -> Tracer | None:
        provider = self._given or trace.get_tracer_provider()
        if self._tracer is None or self._tracer_of is not provider:
            if isinstance(provider, ProxyTracerProvider):
                return None
            self._tracer = provider.get_tracer(SCOPE)
            self._tracer_of = provider
            self._on_provider(provider)
        return self._tracer


def _unseen(around: SpanContext) -> Span:
    """A span that is only its ids, in the trace of the one around it."""
    context = SpanContext(
        around.trace_id if around.is_valid else random_id(128),
        random_id(64),
        is_remote=False,
        # Sampled, so that what the program calls downstream is not told to drop its spans.
        trace_flags=_SAMPLED,
        trace_state=around.trace_state,
    )
    return NonRecordingSpan(context)


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


def set_identity(
    span: Span, trace_id: str, request_id: str, session_id: str | None, user_id: str | None
) -> None:
    """Put the ids of the run on a span, so that it is found by them."""
    attributes = {semconv.SPAN_TRACE_ID: trace_id, semconv.SPAN_REQUEST_ID: request_id}
    if session_id is not None:
        attributes[semconv.SPAN_SESSION_ID] = session_id
        attributes[semconv.SPAN_CONVERSATION_ID] = session_id
    if user_id is not None:
        attributes[semconv.SPAN_USER_ID] = user_id
    span.set_attributes(attributes)


def _record(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception:  # noqa: BLE001 - the text of the exception is the user's code and may raise
        span.add_event("exception", {"exception.type": type(error).__qualname__})
