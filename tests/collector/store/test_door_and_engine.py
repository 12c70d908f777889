"""Validated events are readable by the engine: no line is blanked, whatever values it holds."""

import json
import uuid

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.contract import EXAMPLES
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.model import Kind

door = EventCheck(max_event_bytes=1 << 20)
BASE = msgspec.json.encode({**EXAMPLES[1], "llm_cost_usd": None})

raw_numbers = st.from_regex(
    rb"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
)
raw_strings = st.one_of(
    st.text(max_size=30).map(lambda text: json.dumps(text).encode()),
    st.text(max_size=30).map(
        lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ),
    st.from_regex(rb'"(\\\\u[0-9a-fA-F]{4}|\\\\[bfnrt"\\\\/]|[ -!#-\[\]-~])*"', fullmatch=True),
    st.binary(max_size=12).map(lambda data: b'"' + data + b'"'),
)
raw_values = st.recursive(
    st.one_of(raw_numbers, raw_strings, st.sampled_from([b"null", b"true", b"NaN", b"-0", b"[]"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: b"[" + b" , ".join(items) + b"]"),
        st.lists(st.tuples(raw_strings, inner), max_size=3).map(
            lambda pairs: b"{" + b",".join(key + b": " + value for key, value in pairs) + b"}"
        ),
    ),
    max_leaves=6,
)
keys = st.sampled_from(
    [b'"odd"', b'"event_id"', b'"trace_id"', b'"hlc"', b'"confidence"', b'"\\u0061"']
)


@given(st.lists(st.lists(st.tuples(keys, raw_values), max_size=3), min_size=20, max_size=20))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
def test_validation_is_as_strict_as_the_engine(store, queued, additions):
    lines = [
        BASE[:-1] + b"".join(b"," + key + b":" + value for key, value in extra) + b"}"
        for extra in additions
    ]
    checked = door.check([line for line in lines if b"\n" not in line], tenant="default")
    store.command("TRUNCATE TABLE agent_events")
    if not checked.lines:
        return
    body = queued(b"\n".join(checked.lines))
    store.insert(Kind.EVENTS, [body], token=uuid.uuid4().hex)

    rows = store.select(
        "SELECT event_id, trace_id, event_type, payload FROM agent_events ORDER BY sequence_number",
        {},
        fmt="JSONCompactEachRow",
    )

    stored = [msgspec.json.decode(line) for line in rows.splitlines()]
    sent = [msgspec.json.decode(line) for line in checked.lines]
    assert [row[:3] for row in stored] == [
        [each["event_id"], each["trace_id"], each["event_type"]] for each in sent
    ]
    assert [row[3].encode() for row in stored] == checked.lines
