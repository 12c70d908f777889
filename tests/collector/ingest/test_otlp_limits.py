"""Records with too many attributes or too long values are cut and marked."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_mend import (
    DROPPED,
    LONG_VALUE,
    MANY_ATTRIBUTES,
    OtlpLimits,
)
from tracereel_collector.ingest.otlp_schema import LOGS, METRICS, SIGNALS, TRACES

MOST, LONGEST = 5, 400
door = OtlpCheck(
    why_no_event=lambda *_: "not asked",
    limits=OtlpLimits(attributes=MOST, value_bytes=LONGEST),
)


def places(signal):
    """Return an empty request of a signal and everything in it that has attributes."""
    request = signal.request()
    if signal is TRACES:
        resource = request.resource_spans.add()
        scope = resource.scope_spans.add()
        span = scope.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="n")
        found = [span, span.events.add(name="e"), span.links.add(trace_id=b"t" * 16)]
    elif signal is LOGS:
        resource = request.resource_logs.add()
        scope = resource.scope_logs.add()
        found = [scope.log_records.add(severity_text="INFO")]
    else:
        resource = request.resource_metrics.add()
        scope = resource.scope_metrics.add()
        found = [
            scope.metrics.add(name="g").gauge.data_points.add(as_int=1),
            scope.metrics.add(name="h").histogram.data_points.add(count=1),
        ]
    return request, [*found, resource.resource, scope.scope]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_attributes_beyond_the_limit_are_left_out_wherever_they_stand(signal):
    for index in range(len(places(signal)[1])):
        request, found = places(signal)
        for number in range(MOST + 3):
            found[index].attributes.add(key=f"k{number}").value.int_value = number
        checked = door.protobuf(signal, request.SerializeToString(), tenant="t")

        assert checked.mended == {MANY_ATTRIBUTES: 3}
        assert "3 attributes were left out" in checked.message()
        del found[index].attributes[MOST:]
        found[index].attributes.add(key=DROPPED).value.int_value = 3
        assert signal.request.FromString(checked.data) == request
        assert not checked.refused


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_attributes_within_the_limit_are_unchanged(signal):
    request, found = places(signal)
    for place in found:
        for number in range(MOST):
            place.attributes.add(key=f"k{number}").value.string_value = "v"
    data = request.SerializeToString()

    assert door.protobuf(signal, data, tenant="t").data is data


def test_long_value_is_cut_and_marked():
    request, (span, *_) = places(TRACES)
    text = "ñ" * 50_000
    span.attributes.add(key="prompt").value.string_value = text
    span.attributes.add(key="short").value.string_value = "v"
    listed = span.attributes.add(key="list").value.array_value
    for _ in range(300):
        listed.values.add().string_value = "item"

    checked = door.protobuf(TRACES, request.SerializeToString(), tenant="t")

    assert checked.mended == {LONG_VALUE: 2}
    kept = TRACES.request.FromString(checked.data).resource_spans[0].scope_spans[0].spans[0]
    values = {each.key: each.value.string_value for each in kept.attributes}
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert values["prompt"] == "ñ" * (LONGEST // 2) + f"… [cut: 100000 bytes, sha256 {digest}]"
    assert values["list"].startswith('["item","item"')
    assert values["short"] == "v"


@pytest.mark.parametrize("signal", [TRACES, METRICS], ids=lambda signal: signal.name)
def test_names_and_messages_are_cut_too(signal):
    request, found = places(signal)
    found[-1].name = "s" * 10_000
    if signal is TRACES:
        found[0].status.message = "m" * 10_000

    checked = door.protobuf(signal, request.SerializeToString(), tenant="t")

    assert checked.mended == {LONG_VALUE: 1 + (signal is TRACES)}
    assert len(checked.data) < 2_000


def test_a_log_record_of_fifty_megabytes_keeps_its_beginning():
    request, (record, *_) = places(LOGS)
    record.body.string_value = "x" * 50_000_000
    check = OtlpCheck(why_no_event=lambda *_: "not asked")

    checked = check.protobuf(LOGS, request.SerializeToString(), tenant="t")

    assert checked.mended == {LONG_VALUE: 1}
    assert len(checked.data) < 4 * 1024 * 1024 + 500


def test_a_hundred_thousand_attributes_become_a_thousand():
    request, (span, *_) = places(TRACES)
    for number in range(100_000):
        span.attributes.add(key=f"k{number}").value.int_value = number
    check = OtlpCheck(why_no_event=lambda *_: "not asked")

    checked = check.protobuf(TRACES, request.SerializeToString(), tenant="t")

    assert checked.mended == {MANY_ATTRIBUTES: 99_000}


@given(st.lists(st.text(max_size=600), max_size=9), st.sampled_from([TRACES, LOGS, METRICS]))
@settings(deadline=None)
def test_stored_records_are_always_within_the_limits(texts, signal):
    request, (place, *_) = places(signal)
    for number, text in enumerate(texts):
        place.attributes.add(key=f"k{number}").value.string_value = text

    once = door.protobuf(signal, request.SerializeToString(), tenant="t")

    assert once.records == (2 if signal is METRICS else 1)
    assert len(once.data) < (MOST + 1) * (LONGEST + 200) + 200
    if not once.mended:
        assert once.data == request.SerializeToString()
