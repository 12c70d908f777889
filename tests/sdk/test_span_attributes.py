"""Attributes written the short way are the attributes that OpenTelemetry would have written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext

from tracereel._other_spans import SpanTap
from tracereel._span_attributes import LateAttributes, write
from tracereel._spans import Spans

plain = st.one_of(st.text(max_size=40), st.integers(), st.floats(allow_nan=False), st.booleans())
values = st.one_of(plain, st.lists(st.text(max_size=5), max_size=3), st.none())
attributes = st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=6)
limits = st.sampled_from([(None, None), (3, None), (None, 5), (2, 2), (0, None)])


@given(attributes, attributes, limits)
def test_both_ways_leave_the_same_on_a_span(first, second, limit):
    most, longest = limit
    tracer = TracerProvider(
        span_limits=SpanLimits(max_span_attributes=most, max_span_attribute_length=longest)
    ).get_tracer("t")
    ours, theirs = tracer.start_span("ours"), tracer.start_span("theirs")

    for each in (first, second):
        write(ours, each)
        theirs.set_attributes(each)

    assert dict(ours.attributes) == dict(theirs.attributes)
    assert ours.dropped_attributes == theirs.dropped_attributes


def test_an_ended_span_and_one_that_records_nothing_stay_as_they_are():
    span = TracerProvider().get_tracer("t").start_span("n")
    span.end()

    write(span, {"late": 1})
    write(NonRecordingSpan(SpanContext(1, 1, is_remote=False)), {"a": 1})

    assert "late" not in span.attributes


class Curious(SpanProcessor):
    """A processor of the program's that reads attributes when a span begins."""

    def __init__(self):
        self.seen = []

    def on_start(self, span, parent_context=None):
        self.seen.append(dict(span.attributes))


class Choosy(sampling.Sampler):
    """A sampler of the program's that decides by attributes."""

    def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None):
        keep = (attributes or {}).get("agent.name") == "kept"
        decision = sampling.Decision.RECORD_AND_SAMPLE if keep else sampling.Decision.DROP
        return sampling.SamplingResult(decision, attributes)

    def get_description(self):
        return "choosy"


def test_a_processor_that_reads_attributes_at_the_start_finds_them_also_when_added_late():
    provider = TracerProvider()
    spans = Spans(provider)
    spans.start("first", {"agent.name": "a"}, 1)
    curious = Curious()
    provider.add_span_processor(curious)

    started = spans.start("second", {"agent.name": "a"}, 1)

    assert curious.seen == [{"agent.name": "a"}]
    assert dict(started.span.attributes) == {"agent.name": "a"}


@pytest.mark.parametrize("around", [lambda it: it, sampling.ParentBased], ids=["bare", "parent"])
def test_a_sampler_that_decides_by_attributes_is_given_them(around):
    spans = Spans(TracerProvider(sampler=around(Choosy())))

    assert spans.start("n", {"agent.name": "kept"}, 1).records
    assert not spans.start("n", {"agent.name": "other"}, 1).records


def test_with_stock_parts_attributes_may_come_late():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    batch = BatchSpanProcessor(InMemorySpanExporter())
    provider.add_span_processor(batch)
    provider.add_span_processor(SpanTap())

    assert LateAttributes(provider).allowed()
    batch.shutdown()


class Own(TracerProvider):
    """A provider of the program's own kind."""


@pytest.mark.parametrize(
    "provider",
    [
        TracerProvider(sampler=Choosy()),
        TracerProvider(sampler=sampling.ParentBased(Choosy())),
        Own(),
    ],
    ids=["sampler", "inner sampler", "provider"],
)
def test_with_anything_else_they_come_at_once(provider):
    assert not LateAttributes(provider).allowed()
