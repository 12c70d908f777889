"""Spans of OpenTelemetry's SDK, begun in one step where the many steps of its tracer decide nothing.

A tracer asks a sampler, builds containers that most spans leave empty, and tells processors that do
not listen. For a stock provider all of it is known beforehand: a few spans begun the public way on a
twin of the provider, which nobody listens to, show what every later one will look like. Where the
twin's spans are not as expected, or anything is not stock, spans are begun the public way.
"""

import threading
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from tracereel._span_attributes import PLAIN, LateAttributes, parts_of

_OWN: Final = frozenset(
    {"_name", "_context", "_parent", "_kind", "_start_time", "_attributes", "_lock", "_resource"}
)
"""What every span has for itself from the beginning."""
_LAZY: Final = frozenset({"_events", "_links"})
_SAME: Final = frozenset(
    {
        "_instrumentation_info",
        "_instrumentation_scope",
        "_end_time",
        "_status",
        "_sampler",
        "_trace_config",
        "_record_exception",
        "_set_status_on_exception",
        "_span_processor",
        "_limits",
    }
)
"""What is the same for all spans of a tracer when they begin."""
_OPTIONAL: Final = frozenset({"_record_end_metrics"})
"""What some versions have besides; nothing, where the tracer counts nothing."""
_Flags = dict[tuple[bool, int] | None, TraceFlags]


class _OnDemand:
    """A list of a span, made when it is first looked at."""

    def __init__(self, name: str, limit: int | None) -> None:
        self._name = name
        self._limit = limit

    def __get__(self, span: Any, _owner: Any = None) -> Any:
        # Not a data descriptor: the next look finds what is put here. Of two threads, one puts it.
        return span.__dict__.setdefault(self._name, BoundedList(self._limit))


class QuickSpan(sdk.Span):
    """A span like those of the tracer; what all have in common stands on its class."""

    unseen: Any
    """Says whether no processor of the provider would look at it."""

    def end(self, end_time: int | None = None) -> None:
        """End it; told to processors where one listens."""
        if end_time is None or self._end_time is not None or not self.unseen():
            super().end(end_time)
            return
        with self._lock:
            self._end_time = end_time
            self._attributes._immutable = True  # type: ignore[union-attr]  # noqa: SLF001


class QuickSpans:
    """Begins the spans of one tracer."""

    def __init__(
        self, tracer: sdk.Tracer, kind: type[QuickSpan], flags: _Flags, late: LateAttributes
    ) -> None:
        self._tracer: Any = tracer
        self._kind = kind
        self._flags = flags
        self._late = late
        limits: Any = tracer._span_limits  # noqa: SLF001
        self._max_attributes: int | None = limits.max_span_attributes
        self._max_length: int | None = limits.max_span_attribute_length

    def start(
        self,
        name: str,
        attributes: dict[str, Any],
        start_ns: int,
        around: SpanContext,
        kind: SpanKind,
    ) -> sdk.Span | None:
        """Begin a span with clean attributes, which become its own; null where the tracer must."""
        valid = around.is_valid
        flags = self._flags.get((around.is_remote, around.trace_flags) if valid else None)
        tracer = self._tracer
        if (
            flags is None
            or not self._late.allowed()
            or not tracer._is_enabled()  # noqa: SLF001
            or not PLAIN.issuperset(map(type, attributes.values()))
        ):
            return None
        ids = tracer.id_generator
        held = BoundedAttributes(self._max_attributes, None, False, self._max_length)
        held._dict = attributes  # noqa: SLF001
        span = object.__new__(self._kind)
        span.__dict__.update(
            _name=name,
            _context=SpanContext(
                around.trace_id if valid else ids.generate_trace_id(),
                ids.generate_span_id(),
                False,
                flags,
                around.trace_state if valid else None,
            ),
            _parent=around if valid else None,
            _kind=kind,
            _start_time=start_ns,
            _attributes=held,
            _lock=threading.Lock(),
            _resource=tracer.resource,
        )
        return span


def quick_spans(
    provider: trace.TracerProvider, tracer: trace.Tracer, late: LateAttributes
) -> QuickSpans | None:
    """What begins the spans of a tracer quickly; null where it is not stock in every part."""
    try:
        if not (
            type(provider) is sdk.TracerProvider
            and type(tracer) is sdk.Tracer
            and type(tracer.id_generator) is RandomIdGenerator
            and all(type(part) is sampling.StaticSampler for part in parts_of(tracer.sampler))
            and late.allowed()
            and callable(tracer._is_enabled)  # noqa: SLF001
            and _counts_nothing(tracer)
            and _limits_nothing(tracer)
        ):
            return None
        twin = sdk.TracerProvider(
            sampler=tracer.sampler,
            resource=tracer.resource,
            shutdown_on_exit=False,
            span_limits=tracer._span_limits,  # noqa: SLF001
        ).get_tracer("twin")
        shown = vars(twin.start_span("twin", Context()))
        flags = _flags_of(twin)
        if None not in flags or not _OWN | _LAZY | _SAME <= shown.keys() <= (
            _OWN | _LAZY | _SAME | _OPTIONAL
        ):
            return None
        limits: Any = tracer._span_limits  # noqa: SLF001
        own = {
            **{name: shown[name] for name in _SAME},
            **dict.fromkeys(shown.keys() & _OPTIONAL),
            "_instrumentation_info": tracer.instrumentation_info,
            "_instrumentation_scope": tracer._instrumentation_scope,  # noqa: SLF001
            "_span_processor": tracer.span_processor,
            "_events": _OnDemand("_events", limits.max_events),
            "_links": _OnDemand("_links", limits.max_links),
            "unseen": staticmethod(late.unseen),
        }
    except (AttributeError, TypeError):
        return None  # another version than those known
    return QuickSpans(tracer, type("_Span", (QuickSpan,), own), flags, late)


def _counts_nothing(tracer: Any) -> bool:
    """Whether the tracer keeps no metrics of its own about spans."""
    metrics = getattr(tracer, "_tracer_metrics", None)
    return metrics is None or type(metrics).__name__ == "NoOpTracerMetrics"


def _limits_nothing(tracer: Any) -> bool:
    """Whether our attributes, a few dozen at most, are within the limits whatever they are."""
    limits = tracer._span_limits  # noqa: SLF001
    most = limits.max_span_attributes
    return limits.max_span_attribute_length is None and (most is None or most >= 64)


def _flags_of(twin: trace.Tracer) -> _Flags:
    """The flags of sampled spans, by where their parent is and by its flags; null: without one."""
    found: _Flags = {}
    for key in (None, (False, 1), (False, 3), (True, 1), (True, 3)):
        context = Context()
        if key is not None:
            parent = SpanContext(1, 1, key[0], TraceFlags(key[1]))
            context = set_span_in_context(NonRecordingSpan(parent), context)
        span = twin.start_span("twin", context)
        flags = span.get_span_context().trace_flags
        if span.is_recording() and flags.sampled:
            found[key] = flags
    return found
