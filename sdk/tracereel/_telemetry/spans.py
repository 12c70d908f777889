"""OpenTelemetry spans of executions: choice of provider, start and end."""

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
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

from tracereel import semconv
from tracereel._runtime import guard
from tracereel._runtime.clock import random_id
from tracereel._telemetry.compat import global_tracer_provider
from tracereel._telemetry.event_log import has_handlers, write_to_stderr

MAX_MARKS: Final = 128
"""Maximum number of events and of attributes kept of a span, as in OpenTelemetry's SDK."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
(_SPAN,) = trace.set_span_in_context(INVALID_SPAN, Context())
"""Context key of the current span, read once because the lookup is expensive."""


class StartedSpan(NamedTuple):
    """Started span, its ids as in events, and the context in which it is current."""

    span: Span
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    context: Context
    records: bool
    """Whether the span records attributes."""


class Mark(NamedTuple):
    """Event that the program added to a span of the SDK."""

    name: str
    attributes: BoundedAttributes
    unix_nano: int


class MarkedSpan(NamedTuple):
    """Ended span of the SDK that only has ids and the events that the program added."""

    name: str
    kind: SpanKind
    context: SpanContext
    parent: SpanContext | None
    start_ns: int
    end_ns: int
    marks: list[Mark]


class Spans:
    """Span factory for the configured provider, or the global one by default.

    The global provider is looked up at each start because programs may set it late; it is never set
    here. Without a provider, or with one that only the SDK listens to, a span only has ids: a real one
    would not be exported, and would make up most of the cost of a traced call. Without a provider, the
    first start says how the program's own spans are recorded, if `says_lost`.
    """

    def __init__(
        self,
        provider: trace.TracerProvider | None,
        on_provider: Callable[[trace.TracerProvider], None] = lambda _provider: None,
        on_marked: Callable[[MarkedSpan], None] = lambda _span: None,
        *,
        says_lost: bool = True,
    ) -> None:
        self._given = provider
        self._says_lost = says_lost
        self._on_provider = on_provider
        self._on_marked = on_marked
        self._tracer: Tracer | None = None
        self._tracer_of: trace.TracerProvider | None = None

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
        """Start a span under the current span, or under the span of `context`.

        The two ids become attributes only if the span is recorded.
        """
        tracer = self._choose()
        here = otel_context.get_current() if context is None else context
        current = here.get(_SPAN)
        if tracer is None or not getattr(self._tracer_of, "wants_own_spans", True):
            if tracer is None and self._says_lost:
                self._says_lost = False
                _warn_of_lost_spans()
            started = _unseen(here, current)
            # One attribute, because few programs add events to the span.
            started.span.about = name, kind, current, start_ns, self._on_marked  # type: ignore[attr-defined]
            return started
        around = (current if isinstance(current, Span) else INVALID_SPAN).get_span_context()
        if execution_id is not None:
            attributes = {
                **attributes,
                semconv.SPAN_EXECUTION_ID: execution_id,
                semconv.SPAN_REQUEST_ID: request_id,
            }
        span = tracer.start_span(name, here, kind, attributes=attributes, start_time=start_ns)
        records = span.is_recording()
        own = span.get_span_context()
        if not own.is_valid or own.span_id == around.span_id:
            # A no-op provider returns an invalid span or the parent: create new ids.
            own = _ids_within(around)
        return StartedSpan(
            self._handed_out(span) if records else span,
            own.trace_id.to_bytes(16).hex(),
            own.span_id.to_bytes(8).hex(),
            around.span_id.to_bytes(8).hex() if around.is_valid else None,
            _with_span(here, span),
            records,
        )

    def _handed_out(self, span: Span) -> Span:
        """Return the span for the SDK's own code to write to."""
        return span

    def _choose(self) -> Tracer | None:
        provider = self._given or global_tracer_provider()
        if self._tracer is None or self._tracer_of is not provider:
            if provider is None or isinstance(provider, ProxyTracerProvider):
                return None
            self._tracer = provider.get_tracer(semconv.SCOPE)
            self._tracer_of = provider
            self._on_provider(provider)
        return self._tracer


def _with_span(here: Context, span: Span) -> Context:
    """Return `trace.set_span_in_context(span, here)` with one copy instead of two."""
    context = Context(here)
    dict.__setitem__(context, _SPAN, span)
    return context


class _OwnSpan(NonRecordingSpan):
    """Span of the SDK that no processor sees; keeps the events that the program adds to it."""

    about: tuple[str, SpanKind, object, int, Callable[[MarkedSpan], None]]
    marks: list[Mark] | None = None

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        if self.marks is None:
            self.marks = []
        if len(self.marks) < MAX_MARKS:
            kept = BoundedAttributes(MAX_MARKS, attributes)
            self.marks.append(Mark(str(name), kept, timestamp or time.time_ns()))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        with guard.Guard("span_exception"):
            kind = type(exception)
            place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            known = {
                "exception.type": f"{place}{kind.__qualname__}",
                "exception.message": str(exception),
                "exception.stacktrace": "".join(traceback.format_exception(exception)),
                "exception.escaped": str(escaped),
            }
            self.add_event("exception", known | dict(attributes or {}), timestamp)

    def end(self, end_time: int | None = None) -> None:
        # Only the SDK's own code passes the time.
        if self.marks is None or end_time is None:
            return
        marks, self.marks = self.marks, None
        name, kind, around, start_ns, on_marked = self.about
        parent = around.get_span_context() if isinstance(around, Span) else None
        on_marked(
            MarkedSpan(name, kind, self.get_span_context(), parent, start_ns, end_time, marks)
        )


_LOST: Final = (
    "tracereel: spans that this program starts itself are not recorded, because it has no tracer"
    " provider; call tracereel.configure() at its start, or set a provider"
    " (TRACEREEL_SET_TRACER_PROVIDER=0 if it needs none)"
)


def _warn_of_lost_spans() -> None:
    if guard.warn_once("lost_spans", _LOST) and not has_handlers(guard.log):
        write_to_stderr(_LOST)


def _unseen(here: Context, current: object) -> StartedSpan:
    """Return a non-recording span that is current in a copy of the context."""
    around = current.get_span_context() if isinstance(current, Span) else None
    if around is not None and around.is_valid:
        own = _ids_within(around)
        trace_id, span_id = own.trace_id, own.span_id
        parent_span_id = around.span_id.to_bytes(8).hex()
    else:
        trace_id, span_id, parent_span_id = random_id(128), random_id(64), None
        own = SpanContext(trace_id, span_id, False, _SAMPLED)  # noqa: FBT003, RUF100
    span = _OwnSpan(own)
    return StartedSpan(
        span,
        trace_id.to_bytes(16).hex(),
        span_id.to_bytes(8).hex(),
        parent_span_id,
        _with_span(here, span),
        False,  # noqa: FBT003, RUF100 - it records nothing
    )


def _ids_within(around: SpanContext) -> SpanContext:
    """Return ids for a child span in the parent's trace."""
    return SpanContext(
        around.trace_id if around.is_valid else random_id(128),
        random_id(64),
        is_remote=False,
        # Sampled, so that downstream services do not drop their spans.
        trace_flags=_SAMPLED,
        trace_state=around.trace_state,
    )


_AT_THE_END_OF_PIPELINES: Final = {
    field: names
    for field, names in semconv.SPAN_ATTRIBUTES.items()
    if field not in semconv.KNOWN_AT_START
}
_AT_THE_END: Final = {
    field: names
    for field, names in _AT_THE_END_OF_PIPELINES.items()
    if field != semconv.PIPELINE_FIELD
}
# The span of a call inside an agent gets the agent's name only at its end.
_AT_THE_END_OF_CALLS: Final = _AT_THE_END | {"agent_name": semconv.SPAN_ATTRIBUTES["agent_name"]}


def attributes_of(
    event: Mapping[str, Any], names: Mapping[str, tuple[str, ...]] = semconv.SPAN_ATTRIBUTES
) -> dict[str, Any]:
    """Return the span attributes for the fields of an event."""
    attributes: dict[str, Any] = {}
    for field, value in event.items():
        # Dropped fields are empty strings.
        if value is not None and value != "" and field in names:
            for name in names[field]:
                attributes[name] = value
    if event.get("event_type") == semconv.LLM_CALLED and event.get("llm_model") is not None:
        attributes[semconv.ANSWERED_BY] = event["llm_model"]
    return attributes


def closing_attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the span attributes that were not known at the start."""
    kind = event.get("event_type")
    if kind == semconv.PIPELINE_COMPLETED:
        return attributes_of(event, _AT_THE_END_OF_PIPELINES)
    return attributes_of(event, _AT_THE_END_OF_CALLS if kind in semconv.CALLS else _AT_THE_END)


def finish(
    span: Span,
    event: Mapping[str, Any],
    error: BaseException | None,
    *,
    trace_id: str,
    end_ns: int,
    failed: bool,
) -> None:
    """End a span with its redacted closing event; record the error of a failure."""
    behind = getattr(span, "behind", span)
    try:
        if behind.is_recording():
            attributes = closing_attributes(event)
            attributes[semconv.SPAN_TRACE_ID] = trace_id
            write_clean(behind, attributes)
            if failed and error is not None:
                _record(span, error)
                reported = (event.get("error_type"), event.get("error_message"))
                behind.set_status(
                    Status(StatusCode.ERROR, ": ".join(filter(None, reported)) or None)
                )
    finally:
        behind.end(end_time=end_ns)


def write_clean(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes that are already redacted, bypassing the redacting wrapper."""
    getattr(span, "behind", span).set_attributes(attributes)


def _record(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception as raised:  # noqa: BLE001 - the exception's __str__ is user code
        guard.pass_on(raised)
        span.add_event("exception", {"exception.type": type(error).__qualname__})
