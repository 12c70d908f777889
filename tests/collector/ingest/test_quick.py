"""The fast ingest path accepts only unmodified events and gives the same result as the slow one."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.contract import EXAMPLES, example
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.quick import QuickCheck

LIMIT = 20_000
long_way = EventCheck(max_event_bytes=LIMIT)
quick = QuickCheck(max_event_bytes=LIMIT)
COMPLETED = example("agent.execution.completed")
NESTED = {**COMPLETED, "extra": {"a": [{"b": '{"c":1}'}]}}


def body_of(*events):
    return b"\n".join(msgspec.json.encode(each) for each in events)


def test_sdk_bodies_take_the_fast_path():
    body = body_of(*EXAMPLES, NESTED)

    taken = quick.check(body)

    assert taken is not None
    assert (taken.lines, taken.records) == ([body], len(EXAMPLES) + 1)
    assert quick.check(body + b"\n") == taken


def test_every_contract_type_takes_the_fast_path():
    assert all(quick.check(body_of(each)) is not None for each in EXAMPLES)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"{}",
        b"null",
        body_of(COMPLETED, {"event_id": "1"}),
        body_of(COMPLETED, [COMPLETED]),
        body_of({**COMPLETED, "event_type": "custom.mine"}),
        body_of({**COMPLETED, "event_type": "agent.unknown"}),
        body_of({**COMPLETED, "tenant": "default"}),
        body_of({**COMPLETED, "sequence_number": None}),
        body_of({**COMPLETED, "trace_id": "a b"}),
        body_of({**COMPLETED, "trace_id": "two\nlines"}),
        body_of({**COMPLETED, "trace_id": "last\n"}),
        body_of({**COMPLETED, "trace_id": ""}),
        body_of({**COMPLETED, "event_version": "2.0.0"}),
        body_of({**COMPLETED, "hlc": "0123456789abcdeF"}),
        body_of({**COMPLETED, "timestamp": "1969-12-31T23:59:59Z"}),
        body_of({**COMPLETED, "timestamp": "2026-01-23T10:00:00.0123456789012345Z"}),
        body_of({**COMPLETED, "x": json.loads("[" * 250 + "]" * 250)}),
        body_of({**COMPLETED, "x": "y" * LIMIT}),
        json.dumps(COMPLETED).encode(),
        body_of(COMPLETED)[:-1] + b',"event_id":"second"}',
        body_of(COMPLETED).replace(b'","', b'",\n"', 1),
        body_of(COMPLETED) + b"\n\n" + body_of(COMPLETED),
        body_of(COMPLETED) + body_of(COMPLETED),
        body_of(COMPLETED) + b"\r\n" + body_of(COMPLETED),
    ],
)
def test_unusual_bodies_take_the_slow_path(body):
    assert quick.check(body) is None


values = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(
        [None, True, [], ["a"], {"a": 1}, "2026-01-23", "1.0", "a" * 16, "b" * 32, "t\n", 1.0]
    ),
)
emitters = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, 4, None]))


@given(st.data())
def test_fast_and_slow_path_give_the_same_result(data):
    events = []
    for _ in range(data.draw(st.integers(1, 6))):
        event = dict(data.draw(st.sampled_from(EXAMPLES)))
        event["emitter_id"], event["emitter_seq"] = data.draw(emitters)
        event["session_id"] = data.draw(st.sampled_from([None, "s1", "s2"]))
        if data.draw(st.booleans()):
            field = data.draw(
                st.sampled_from([*sorted(event), "tenant", "hlc", "extra", "span_id"])
            )
            event[field] = data.draw(values)
        events.append(event)
    lines = [msgspec.json.encode(each) for each in events]

    taken = quick.check(b"\n".join(lines))
    checked = long_way.check(lines, tenant="default")

    if taken is not None:
        assert checked.reasons.total() == 0
        assert checked.lines == lines
        assert taken.lines == [b"\n".join(lines)]
        assert (taken.records, taken.runs) == (checked.records, checked.runs)
        assert taken.owners == checked.owners
    else:
        ours = any("tenant" in each for each in events)
        assert checked.reasons or checked.lines != lines or ours
