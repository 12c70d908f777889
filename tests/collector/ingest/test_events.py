"""Three body formats are parsed into the same lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.ingest.events import split_events

objects = st.dictionaries(
    st.text(max_size=5), st.one_of(st.integers(), st.text(), st.none()), max_size=4
)


def lines_of(body, content_type="application/json"):
    lines, single = split_events(body, content_type=content_type)
    return [json.loads(line) for line in lines], single


@given(st.lists(objects, min_size=1, max_size=5), st.sampled_from([None, 2]))
def test_an_array_is_its_elements(events, indent):
    assert lines_of(json.dumps(events, indent=indent).encode()) == (events, False)


@given(st.lists(objects, min_size=2, max_size=5), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_ndjson_is_detected_without_a_content_type(events, separator):
    body = separator.join(json.dumps(each) for each in events).encode() + b"\n"

    assert lines_of(body) == (events, False)
    assert lines_of(body, "application/x-ndjson") == (events, False)


@given(objects, st.sampled_from([None, 1, 4]))
def test_one_object_is_one_event_however_it_is_printed(event, indent):
    assert lines_of(json.dumps(event, indent=indent).encode()) == ([event], True)


@pytest.mark.parametrize("body", [b"", b"  \n\t ", b"\r\n"])
def test_an_empty_body_is_refused(body):
    with pytest.raises(BadRequestError, match="empty"):
        split_events(body, content_type="")


@pytest.mark.parametrize("body", [b"[", b"[1,]", b'[{"a":1}', b"[" * 100_000])
def test_a_broken_array_is_refused_as_a_whole(body):
    with pytest.raises(BadRequestError, match="not a valid JSON array"):
        split_events(body, content_type="application/json")


def test_too_many_events_are_refused_before_each_gets_memory_of_its_own():
    for many in (
        b"1\n" * 200_000,
        b"[" + b"1," * 200_000 + b"1]",
        b"[" + b"1," * 4_000_000 + b"1]",
    ):
        with pytest.raises(TooLargeError, match=r"at most 100000|more than 100000"):
            split_events(many, content_type="application/json")
