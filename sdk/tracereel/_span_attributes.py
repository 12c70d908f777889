"""Attributes on OpenTelemetry spans, written without a second check where the first one is known.

OpenTelemetry cleans every attribute it is given, for more than a microsecond each; ours are clean
already, and on a span of its SDK they can be put where they end up. That is done only where nobody
could tell: plain values, no limits in the way, and, for those a span begins with, a stock sampler
and stock processors, which do not look at them. In every other case the public way is taken.
"""

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Span

from tracereel._other_spans import SpanTap

PLAIN: Final = frozenset({str, int, float, bool})
_SAMPLERS: Final = frozenset({sampling.StaticSampler, sampling.TraceIdRatioBased})
_PROCESSORS: Final = frozenset({BatchSpanProcessor, SimpleSpanProcessor, SpanTap})
_UNKNOWN: Final[Any] = object()


class LateAttributes:
    """Whether spans of a provider may get their first attributes just after they began."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._holder: Any = None
        if type(provider) is TracerProvider and _is_blind(provider.sampler):
            held = getattr(provider, "_active_span_processor", None)
            self._holder = held if type(held) is SynchronousMultiSpanProcessor else None
        self._known: Any = _UNKNOWN
        self._allowed = False
        self._unseen = False

    def allowed(self) -> bool:
        """Asked for every span: a program may add a processor at any time."""
        processors = getattr(self._holder, "_span_processors", _UNKNOWN)
        if processors is not self._known:
            self._known = processors
            self._allowed = isinstance(processors, tuple) and all(
                type(each) in _PROCESSORS for each in processors
            )
            self._unseen = self._allowed and all(type(each) is SpanTap for each in processors)
        return self._allowed

    def unseen(self) -> bool:
        """Whether no processor would look at a span of ours, which the tap passes over."""
        return self.allowed() and self._unseen

    @staticmethod
    def begin(span: Span, attributes: dict[str, Any]) -> None:
        """Give a span that has just begun its first attributes, clean; the dictionary becomes its own."""
        held = getattr(span, "_attributes", None)
        if (
            type(held) is BoundedAttributes
            and getattr(held, "_dict", None) == {}
            and held.max_value_len is None
            and (held.maxlen is None or len(attributes) <= held.maxlen)
            and PLAIN.issuperset(map(type, attributes.values()))
        ):
            held._dict = attributes  # noqa: SLF001
        else:
            span.set_attributes(attributes)


def _is_blind(sampler: Any) -> bool:
    """Whether a sampler decides without looking at attributes."""
    return all(type(part) in _SAMPLERS for part in parts_of(sampler))


def parts_of(sampler: Any) -> tuple[Any, ...]:
    """The samplers one of which decides."""
    if type(sampler) is not sampling.ParentBased:
        return (sampler,)
    parts = (
        "_root",
        "_remote_parent_sampled",
        "_remote_parent_not_sampled",
        "_local_parent_sampled",
        "_local_parent_not_sampled",
    )
    return tuple(getattr(sampler, part, None) for part in parts)


def write(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes that have been cleaned already; their names are ours, never empty."""
    held = getattr(span, "_attributes", None)
    plain: Any = getattr(held, "_dict", None)
    if (
        type(held) is BoundedAttributes
        and type(plain) is dict
        and held.max_value_len is None
        and (held.maxlen is None or len(plain) + len(attributes) <= held.maxlen)
        and PLAIN.issuperset(map(type, attributes.values()))
        and span.is_recording()
    ):
        plain.update(attributes)
    else:
        span.set_attributes(attributes)
