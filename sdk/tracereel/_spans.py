"""The OpenTelemetry side of an execution: which provider, how a span starts and ends."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
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

from tracereel import _guard, semconv
from tracereel._clock import random_id

if TYPE_CHECKING:
    from tracereel._quick_spans import QuickSpans
    from tracereel._span_attributes import LateAttributes

SCOPE: Final = "tracereel"
_UNKNOWN: Final[Any] = object()
_asked: Final[list[bool]] = []
_write: Final[list[Callable[[Span, Mapping[str, Any]], None]]] = []
"""How clean attributes are written, once there are spans of OpenTelemetry's SDK to write them on."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
(_SPAN,) = trace.set_span_in_context(INVALID_SPAN, Context())
"""Under which key a context has its span: looked up here, each time, it costs a fraction."""


class StartedSpan(NamedTuple):
    """A span that has begun, its ids as the events write them, and the context it is current in."""

    span: Span
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    context: Context
    records: bool
    """Whether anybody could see what is written on the span."""


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
        self._late: LateAttributes | None = None
        self._quick: QuickSpans | None = None

    def start(
        self,
        name: str,
        attributes: dict[str, Any],
        start_ns: int,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        execution_id: str | None = None,
        request_id: str | None = None,
    ) -> StartedSpan:
        """Begin a span under whatever span is current, or under that of a context.

        The two ids are attributes as well, put to the others only where somebody would see them.
        """
        tracer = self._choose()
        here = otel_context.get_current() if context is None else context
        current = here.get(_SPAN)
        if tracer is None:
            return _unseen(here, current)
        around = (current if isinstance(current, Span) else INVALID_SPAN).get_span_context()
        span: Span | None = None
        records = True
        if execution_id is not None:
            attributes = {
                **attributes,
                semconv.SPAN_EXECUTION_ID: execution_id,
                semconv.SPAN_REQUEST_ID: request_id,
            }
        if self._quick is not None:
            span = self._quick.start(name, attributes, start_ns, around, kind)
        if span is None:
            span = self._start_publicly(tracer, name, attributes, start_ns, context, kind)
            records = span.is_recording()
        own = span.get_span_context()
        if not own.is_valid or own.span_id == around.span_id:
            # A no-op provider hands back an invalid span, or the one around: ids of our own.
            own = _ids_within(around)
        return StartedSpan(
            self._handed_out(span) if records else span,
            own.trace_id.to_bytes(16).hex(),
            own.span_id.to_bytes(8).hex(),
            around.span_id.to_bytes(8).hex() if around.is_valid else None,
            _with_span(here, span),
            records,
        )

    def _start_publicly(
        self,
        tracer: Any,
        name: str,
        attributes: dict[str, Any],
        start_ns: int,
        context: Context | None,
        kind: SpanKind,
    ) -> Span:
        late = self._late if self._late is not None and self._late.allowed() else None
        first = attributes if late is None else None
        span: Span = tracer.start_span(name, context, kind, attributes=first, start_time=start_ns)
        if late is not None and span.is_recording():
            late.begin(span, attributes)
        return span

    def _handed_out(self, span: Span) -> Span:
        """The span as our own code writes on it."""
        return span

    def _choose(self) -> Tracer | None:
        provider = self._given or _global_provider()
        if self._tracer is None or self._tracer_of is not provider:
            if provider is None or isinstance(provider, ProxyTracerProvider):
                return None
            self._tracer = tracer = provider.get_tracer(SCOPE)
            self._tracer_of = provider
            self._on_provider(provider)
            self._late, self._quick = _quicker_ways(provider, tracer)
        return self._tracer


def _quicker_ways(
    provider: trace.TracerProvider, tracer: Tracer
) -> "tuple[LateAttributes | None, QuickSpans | None]":
    """Imported here: a program without the SDK of OpenTelemetry in use does not pay for it."""
    if not type(provider).__module__.startswith("opentelemetry.sdk."):
        return None, None
    from tracereel import _quick_spans, _span_attributes  # noqa: PLC0415, RUF100

    _write[:] = [_span_attributes.write]
    late = _span_attributes.LateAttributes(provider)
    return late, _quick_spans.quick_spans(provider, tracer, late)


def _global_provider() -> trace.TracerProvider | None:
    """The program's provider, looked up without reading the environment where that is possible."""
    # Until one is set, the public function reads an environment variable each time it is asked; that
    # costs as much as writing an event. It has been asked once when the name below is looked at.
    if _asked:
        provider: trace.TracerProvider | None = getattr(trace, "_TRACER_PROVIDER", _UNKNOWN)
        if provider is not _UNKNOWN:
            return provider
    _asked.append(True)
    return trace.get_tracer_provider()


def _with_span(here: Context, span: Span) -> Context:
    """What `trace.set_span_in_context` gives, in one copy instead of two."""
    context = Context(here)
    dict.__setitem__(context, _SPAN, span)
    return context


def _unseen(here: Context, current: object) -> StartedSpan:
    """A span that is only its ids, in a context where this span is current."""
    around = current.get_span_context() if isinstance(current, Span) else None
    if around is not None and around.is_valid:
        own = _ids_within(around)
        trace_id, span_id = own.trace_id, own.span_id
        parent_span_id = around.span_id.to_bytes(8).hex()
    else:
        trace_id, span_id, parent_span_id = random_id(128), random_id(64), None
        own = SpanContext(trace_id, span_id, False, _SAMPLED)  # noqa: FBT003, RUF100
    span = NonRecordingSpan(own)
    return StartedSpan(
        span,
        trace_id.to_bytes(16).hex(),
        span_id.to_bytes(8).hex(),
        parent_span_id,
        _with_span(here, span),
        False,  # noqa: FBT003, RUF100 - nobody could see what is written on it
    )


def _ids_within(around: SpanContext) -> SpanContext:
    """Ids for a span in the trace of the one around it."""
    return SpanContext(
        around.trace_id if around.is_valid else random_id(128),
        random_id(64),
        is_remote=False,
        # Sampled, so that what the program calls downstream is not told to drop its spans.
        trace_flags=_SAMPLED,
        trace_state=around.trace_state,
    )


_AT_THE_END: Final = {
    field: names
    for field, names in semconv.SPAN_ATTRIBUTES.items()
    if field not in semconv.KNOWN_AT_START
}
# The span of a call inside an agent learns the agent's name only then.
_AT_THE_END_OF_CALLS: Final = _AT_THE_END | {"agent_name": semconv.SPAN_ATTRIBUTES["agent_name"]}


def attributes_of(
    event: Mapping[str, Any], names: Mapping[str, tuple[str, ...]] = semconv.SPAN_ATTRIBUTES
) -> dict[str, Any]:
    """The attributes that the fields of an event put on its span."""
    attributes: dict[str, Any] = {}
    for field, value in event.items():
        # What the program wants dropped is empty.
        if value is not None and value != "" and field in names:
            for name in names[field]:
                attributes[name] = value
    if event.get("event_type") == semconv.LLM_CALLED and event.get("llm_model") is not None:
        attributes[semconv.ANSWERED_BY] = event["llm_model"]
    return attributes


def closing_attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """Those of them that were not known when the span began."""
    inside = event.get("event_type") in semconv.CALLS
    return attributes_of(event, _AT_THE_END_OF_CALLS if inside else _AT_THE_END)


def finish(
    span: Span,
    event: Mapping[str, Any],
    error: BaseException | None,
    *,
    trace_id: str,
    end_ns: int,
    failed: bool,
) -> None:
    """End a span with what its closing event, which is clean, says; a failure's error is recorded."""
    behind = getattr(span, "behind", span)
    try:
        if behind.is_recording():
            attributes = closing_attributes(event)
            attributes[semconv.SPAN_TRACE_ID] = trace_id
            write_clean(behind, attributes)
            if failed and error is not None:
                _record(span, error)
                told = (event.get("error_type"), event.get("error_message"))
                behind.set_status(Status(StatusCode.ERROR, ": ".join(filter(None, told)) or None))
    finally:
        behind.end(end_time=end_ns)


def write_clean(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes that have been cleaned already, on the span behind one that would do it again."""
    behind = getattr(span, "behind", span)
    if _write:
        _write[0](behind, attributes)
    else:
        behind.set_attributes(attributes)


def _record(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception as raised:  # noqa: BLE001 - the text of the exception is the user's code
        _guard.pass_on(raised)
        span.add_event("exception", {"exception.type": type(error).__qualname__})
