"""Large content is at the end of an event's line, after its length."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel import semconv
from tracereel._redact import values
from tracereel.semconv import CONTENT_FIELDS, LARGE_CONTENT

LONG = "x" * LARGE_CONTENT

_scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=40)
_data = st.recursive(
    _scalars
    | st.just(LONG)
    | st.just('\n"\\\x00é🙂' * 800)
    | st.just(',"content_bytes":7,"input":'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
_names = st.sampled_from((*CONTENT_FIELDS, "agent_name", "status", "facts", "input_summary"))
events = st.dictionaries(_names, _data, max_size=8)


def parts(line: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Split a line at its large content as a reader does."""
    for found in re.finditer(rb',"content_bytes":(\d+),', line):
        if len(line) - found.end() == int(found[1]) - 1:
            head, tail = line[: found.start()] + b"}", b"{" + line[found.end() :]
            return json.loads(head), json.loads(tail)
    return None


@given(events)
def test_a_line_decodes_to_the_same_event(event: dict[str, Any]) -> None:
    event = {"event_type": "custom.x", **event}
    decoded = msgspec.json.decode(values.encode(event))
    size = decoded.pop(semconv.CONTENT_BYTES, None)
    assert decoded == event
    content = {name: event[name] for name in CONTENT_FIELDS if event.get(name) is not None}
    length = len(msgspec.json.encode(content))
    assert size == (length if length > LARGE_CONTENT else None)


@given(events)
def test_both_parts_of_a_line_are_json(event: dict[str, Any]) -> None:
    event = {"event_type": "custom.x", **event}
    line = values.encode(event)
    found = parts(line)
    content = {name: event[name] for name in CONTENT_FIELDS if event.get(name) is not None}
    if len(msgspec.json.encode(content)) <= LARGE_CONTENT:
        assert found is None
    else:
        assert found is not None
        facts, last = found
        assert last == content
        assert {**facts, **last} == event
        assert not {name for name in CONTENT_FIELDS if facts.get(name) is not None}


@pytest.mark.parametrize("size", [LARGE_CONTENT - 13, LARGE_CONTENT - 12])
def test_content_of_up_to_4096_bytes_stays_where_it_is(size: int) -> None:
    event = {"event_type": "custom.x", "result": "x" * size, "status": "success"}
    line = values.encode(event)
    is_large = len(msgspec.json.encode({"result": event["result"]})) > LARGE_CONTENT
    assert (semconv.CONTENT_BYTES.encode() in line) is is_large
    assert is_large is (size > LARGE_CONTENT - 13)
