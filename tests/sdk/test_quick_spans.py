"""Spans begun in one step are the spans that OpenTelemetry's tracer would have begun."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from tracereel._other_spans import SpanTap
from tracereel._quick_spans import QuickSpan
from tracereel._spans import SCOPE, Spans

parents = st.one_of(
    st.none(),
    st.builds(
        SpanContext,
        st.integers(1, 2**128 - 1),
        st.integers(1, 2**64 - 1),
        is_remote=st.booleans(),
        trace_flags=st.integers(0, 3).map(TraceFlags),
        trace_state=st.sampled_from([None, TraceState([("vendor", "1")])]),
    ),
)
plain = st.one_of(st.text(max_size=10), st.integers(), st.floats(allow_nan=False), st.booleans())
attributes = st.dictionaries(st.text(min_size=1, max_size=8), plain, max_size=6)
writes = st.sampled_from(["nothing", "attribute", "event", "link", "status", "name", "error"])


class Exported:
    """A provider, and what it exports of the spans that are begun one way."""

    def __init__(self, *, quick, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=Resource({"service.name": "s"}), **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(self.provider)
        self.spans._choose()
        if not quick:
            self.spans._quick = None

    def span(self, parent, first, how, kind):
        """Begin, write on and end a span; what is exported of it."""
        context = Context()
        if parent is not None:
            context = set_span_in_context(NonRecordingSpan(parent), context)
        started = self.spans.start("n", dict(first), 7, context, kind)
        _write(started.span, how)
        started.span.end(end_time=9)
        started.span.end(end_time=11)
        self.exporter, spans = InMemorySpanExporter(), self.exporter.get_finished_spans()
        self.provider._active_span_processor._span_processors[0].span_exporter = self.exporter
        return started, spans


def _write(span, how):
    if how == "attribute":
        span.set_attribute("k", [1, 2])
    elif how == "event":
        span.add_event("e", {"k": "v"}, timestamp=8)
    elif how == "link":
        span.add_link(SpanContext(5, 6, is_remote=False), {"k": "v"})
    elif how == "status":
        span.set_status(Status(StatusCode.ERROR, "broken"))
    elif how == "name":
        span.update_name("other")
    elif how == "error":
        span.record_exception(ValueError("x"), timestamp=8)


def _shown(spans):
    """Exported spans without the ids that are drawn."""
    found = []
    for span in spans:
        shown = json.loads(span.to_json())
        shown["context"]["span_id"] = None
        if span.parent is None:
            shown["context"]["trace_id"] = None
        flags = int(span.context.trace_flags)
        scope = span.instrumentation_scope
        dropped = (span.dropped_attributes, span.dropped_events, span.dropped_links)
        found.append((shown, flags, scope, dropped, span.context.trace_state))
    return found


both = {quick: Exported(quick=quick) for quick in (True, False)}


@given(parents, attributes, writes, st.sampled_from(SpanKind))
def test_both_ways_export_the_same_span(parent, first, how, kind):
    started, exported = zip(
        *(both[quick].span(parent, first, how, kind) for quick in (True, False)), strict=True
    )

    assert _shown(exported[0]) == _shown(exported[1])
    assert started[0].parent_span_id == started[1].parent_span_id
    assert started[0].records is started[1].records
    sampled = parent is None or parent.trace_flags.sampled
    assert isinstance(started[0].span, QuickSpan) is sampled
    assert not isinstance(started[1].span, QuickSpan)


def test_children_of_a_quick_span_are_in_its_trace_whoever_begins_them():
    provider = TracerProvider()
    parent = Spans(provider).start("parent", {}, 1)

    child = provider.get_tracer("other").start_span("child", parent.context)

    assert child.parent == parent.span.get_span_context()
    assert f"{child.get_span_context().trace_id:032x}" == parent.otel_trace_id


def test_a_span_that_nobody_would_look_at_ends_all_the_same():
    provider = TracerProvider()
    provider.add_span_processor(SpanTap())
    span = Spans(provider).start("n", {"a": 1}, 1).span

    span.end(end_time=2)
    span.set_attribute("late", 1)

    assert isinstance(span, QuickSpan)
    assert (span.start_time, span.end_time, span.is_recording()) == (1, 2, False)
    assert dict(span.attributes) == {"a": 1}


class Late(SpanProcessor):
    """A processor that comes when a span has begun already."""

    def __init__(self):
        self.ended = []

    def on_end(self, span):
        self.ended.append(span.name)


def test_a_processor_added_while_a_span_is_open_is_told_of_its_end():
    provider, late = TracerProvider(), Late()
    span = Spans(provider).start("n", {}, 1).span
    provider.add_span_processor(late)

    span.end(end_time=2)

    assert late.ended == ["n"]


class Counting(IdGenerator):
    """Ids that follow each other."""

    def __init__(self):
        self.last = 0

    def generate_span_id(self):
        self.last += 1
        return self.last

    generate_trace_id = generate_span_id


class Named(RandomIdGenerator):
    """An id generator of the program's."""


@pytest.mark.parametrize(
    "options",
    [
        {"id_generator": Counting()},
        {"id_generator": Named()},
        {"sampler": sampling.TraceIdRatioBased(1.0)},
        {"sampler": sampling.ParentBased(sampling.TraceIdRatioBased(1.0))},
        {"sampler": sampling.ALWAYS_OFF},
        {"span_limits": SpanLimits(max_span_attributes=3)},
        {"span_limits": SpanLimits(max_span_attribute_length=3)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_not_stock_is_begun_by_the_tracer(options):
    spans = Spans(TracerProvider(**options))

    started = spans.start("n", {"a": "long enough", "b": 1, "c": 2, "d": 3}, 1)

    assert spans._quick is None
    assert not isinstance(started.span, QuickSpan)


def test_ids_of_a_generator_of_the_programs_are_not_used_up_by_us():
    ids = Counting()
    started = Spans(TracerProvider(id_generator=ids)).start("n", {}, 1)

    assert (started.otel_trace_id, started.span_id) == (f"{1:032x}", f"{2:016x}")


def test_a_tracer_that_counts_its_spans_is_left_to_itself(monkeypatch):
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    provider = TracerProvider()
    spans = Spans(provider)
    spans._choose()
    counts = getattr(provider.get_tracer(SCOPE), "_tracer_metrics", None)

    assert (spans._quick is None) is (type(counts).__name__ == "TracerMetrics")


def test_a_tracer_that_is_switched_off_begins_nothing():
    provider = TracerProvider()
    spans = Spans(provider)
    assert spans.start("n", {}, 1).records
    tracer = provider.get_tracer(SCOPE)
    if not hasattr(tracer, "_set_tracer_config"):
        pytest.skip("this version cannot switch tracers off")
    off = type(tracer._tracer_config)(is_enabled=False)
    tracer._set_tracer_config(off)

    assert not spans.start("n", {}, 1).records


def test_a_quick_span_is_current_like_any_other():
    started = Spans(TracerProvider()).start("n", {}, 1)

    assert trace.get_current_span(started.context) is started.span
