"""Bodies with very many small objects are counted in their bytes before parsing."""

import asyncio
import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.support.small_objects import OTLP_BODIES, nested_values
from tracereel_collector.errors import BadRequestError, ThrottledError, TooLargeError
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.events import split_events
from tracereel_collector.ingest.heartbeats import check_heartbeats
from tracereel_collector.ingest.objects import count_json, count_protobuf
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.ingest.quick import MAX_AT_ONCE, QuickCheck
from tracereel_collector.ingest.scores import check_scores
from tracereel_collector.ingest.working_memory import WorkingMemory

MIB = 1 << 20
MANY = 3_000_000
check = OtlpCheck(why_no_event=lambda *_: "not asked")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab,[{\\"\n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('k,{\\"'), inner, max_size=4)
    ),
    max_leaves=30,
)


def number_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of, inner))


def peak_of(act):
    """Return the peak memory of Python objects during a call."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(values, st.booleans())
def test_json_values_are_counted_outside_of_strings(value, is_indented):
    text = json.dumps(value, indent=2 if is_indented else None).encode()

    assert number_of(value) <= count_json(text, 0) + 1
    assert count_json(text, 0) <= 2 * number_of(value)
    assert count_json(text, 1 << 60) >= count_json(text, 0)


@pytest.mark.parametrize("size", range(65_530, 65_545))
def test_escapes_across_windows_of_the_count_are_read_right(size):
    for tail in (b'"', b'\\""', b'\\\\"', b'\\\\\\""'):
        text = b'["' + b"x" * size + tail + b",{}," + b'"' + b"," * 99 + b'"]'
        assert json.loads(text)
        assert count_json(text, 0) == 4


@pytest.mark.parametrize("name", OTLP_BODIES)
def test_otlp_bodies_of_very_many_empty_messages_are_refused(name):
    signal, body = OTLP_BODIES[name](MANY)

    with pytest.raises(TooLargeError, match="more than 1000000 objects"):
        check.protobuf(signal, body, tenant="default")


@pytest.mark.parametrize("name", OTLP_BODIES)
def test_messages_are_counted_as_the_parser_makes_them(name):
    signal, body = OTLP_BODIES[name](1_000)

    assert count_protobuf(body, signal.request.DESCRIPTOR, 999) == 1_000


def test_a_large_request_of_ordinary_spans_is_accepted():
    request = TRACES.request()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(1, 4_000):
        span = scope.spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8), name="n" * 400)
        span.attributes.extend(
            KeyValue(key="k" * 20, value=AnyValue(string_value="v" * 20)) for _ in range(20)
        )
    data = request.SerializeToString()
    assert len(data) > 4 * MIB

    assert check.protobuf(TRACES, data, tenant="default").records == 3_999


@pytest.mark.parametrize("junk", [b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x7f", b"\x0e", b"\x0a\x05"])
def test_large_bodies_that_are_no_protobuf_are_refused(junk):
    with pytest.raises(BadRequestError, match="not an OTLP ExportTraceServiceRequest"):
        check.protobuf(TRACES, b"\x0a\x00" * 600_000 + b"\x78\x01" * 600_000 + junk, tenant="a")


@pytest.mark.parametrize(
    "body",
    [b'{"resourceSpans":[' + b"{}," * MANY + b"{}]}", b"[" + b"1," * MANY + b"1]"],
    ids=["objects", "numbers"],
)
def test_otlp_json_of_very_many_values_is_refused_before_it_is_built(body):
    def act():
        with pytest.raises(TooLargeError, match="more than 1000000 objects"):
            check.json(TRACES, body, tenant="default")

    assert peak_of(act) < MIB


def test_event_bodies_of_very_many_values_are_refused_before_they_are_built():
    def act():
        with pytest.raises(TooLargeError, match="more than 1000000 objects"):
            split_events(b"[" + b"{}," * MANY + b"{}]", content_type="application/json")
        first = b'{"a":[' + b"{}," * MANY + b"{}]}"
        assert split_events(first + b"\n{}", content_type="application/json")[0][1] == b"{}"

    assert peak_of(act) < 40 * MIB  # the body itself, as lines


def test_an_event_of_very_many_values_is_rejected_with_a_reason():
    line = b'{"a":[' + b"{}," * 1_200_000 + b"{}]}"
    events = EventCheck(max_event_bytes=4 * MIB)

    def act():
        (rejection,) = events.check([line], tenant="default").rejected
        assert "more than 1000000 values" in rejection.reason

    assert peak_of(act) < MIB


def test_bodies_of_many_values_are_not_decoded_as_a_whole():
    quick = QuickCheck(max_event_bytes=4 * MIB)
    line = b'{"a":[' + b"{}," * 10_000 + b"{}]}\n"

    assert peak_of(lambda: quick.check(line * (MAX_AT_ONCE // 10_000))) < MIB


@pytest.mark.parametrize(
    "send",
    [check_heartbeats, lambda data: check_scores(data, now_unix_nano=0, redactor=None)],
    ids=["heartbeats", "scores"],
)
def test_small_bodies_of_many_values_are_refused_before_they_are_built(send):
    body = b'[{"a":[' + b"{}," * 200_000 + b"{}]}]"

    def act():
        with pytest.raises(TooLargeError, match="more than 100000 JSON values"):
            send(body)

    assert peak_of(act) < MIB


def test_text_that_looks_like_very_many_values_is_text():
    line = msgspec.json.encode({"text": '{"a":[1,2,{}],"b":"\\""}' * 100_000})
    (rejection,) = EventCheck(max_event_bytes=8 * MIB).check([line], tenant="default").rejected

    assert "event_type: missing" in rejection.reason


def test_deeply_nested_values_are_refused_without_recursion():
    signal, body = nested_values(300_000)

    with pytest.raises(BadRequestError, match="nested too deep"):
        count_protobuf(body, signal.request.DESCRIPTOR, 1_000_000)


def test_working_memory_is_shared_in_order_and_half_of_it_kept_for_other_tenants():
    order = []

    async def work(memory, name, size, tenant, done):
        async with memory.hold(size, tenant=tenant):
            order.append(name)
            await done.wait()

    async def run():
        memory, done = WorkingMemory(100), asyncio.Event()
        wanted = [("a1", 40, "a"), ("a2", 40, "a"), ("b1", 50, "b"), ("b2", 20, "b")]
        tasks = [asyncio.create_task(work(memory, *each, done)) for each in wanted]
        for _ in range(10):
            await asyncio.sleep(0)  # let every task run as far as it can
        held = list(order)
        done.set()
        await asyncio.gather(*tasks)
        return held

    assert asyncio.run(run()) == ["a1", "b1"]
    assert sorted(order) == ["a1", "a2", "b1", "b2"]


def test_body_larger_than_working_memory_is_checked_alone():
    async def run():
        memory = WorkingMemory(100, wait_seconds=0.05)
        async with memory.hold(1_000, tenant="a"):
            with pytest.raises(ThrottledError):
                async with memory.hold(1, tenant="b"):
                    pass
        async with memory.hold(100, tenant="b"):
            return True

    assert asyncio.run(run())
