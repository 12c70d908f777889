"""SSE parser: independent of how the bytes are split, with bounded memory."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracereel._runtime.sse_parser import SseEvent, SseParser

LINES = st.one_of(
    st.sampled_from(
        [
            *(b"", b"", b": comment", b":", b"data", b"data:", b"data:x", b"data:  two spaces"),
            *(b"event: a", b"event:b", b"event", b"id: 7", b"id: 1\x002", b"id", b"retry: 50"),
            *(b"retry: soon", b"unknown: field", b"\xef\xbb\xbfdata: no BOM", b"data: \xff\xc3"),
        ]
    ),
    st.text('aé€😀 {}:"data', max_size=12).map(lambda text: b"data: " + text.encode()),
    st.binary(max_size=8).map(lambda data: data.translate(None, b"\r\n")),
)
BODIES = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=25),
    LINES,
).map(lambda body: body[0] + b"".join(itertools.chain(*body[1])) + body[2])


def expected(body: bytes) -> tuple[list[SseEvent], str, int | None]:
    """Return the events that the specification's algorithm gives for a whole body."""
    *lines, _ = (
        body.removeprefix(b"\xef\xbb\xbf")
        .replace(b"\r\n", b"\n")
        .replace(b"\r", b"\n")
        .split(b"\n")
    )
    events, last_id, retry = [], "", None
    name, data, new_id = b"", b"", b""
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            last_id = new_id.decode("utf-8", "replace")
            if data:
                shown = name.decode("utf-8", "replace") or "message"
                events.append(SseEvent(shown, data.removesuffix(b"\n"), last_id))
            name, data = b"", b""
        elif field == b"event":
            name = value
        elif field == b"data":
            data += value + b"\n"
        elif field == b"id" and b"\0" not in value:
            new_id = value
        elif field == b"retry" and value.isdigit():
            retry = int(value[:9])
    return events, last_id, retry


@given(BODIES, st.lists(st.integers(0, 10_000), max_size=20))
@example(b"data: a\r\n\r\ndata: b\r\r", [8, 9, 10])
def test_any_split_of_the_bytes_gives_the_events_of_the_specification(
    body: bytes, cuts: list[int]
) -> None:
    bounds = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    splits = [
        [body],
        [body[a:b] for a, b in itertools.pairwise(bounds)],
        [body[at : at + 1] for at in range(len(body))],
    ]
    for chunks in splits:
        parser = SseParser()
        events = [event for chunk in chunks for event in parser.feed(chunk)]

        assert (events, parser.last_event_id, parser.retry_ms) == expected(body)
        assert parser.dropped == 0


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_event_that_is_too_long_is_dropped_and_the_next_is_read(size: int) -> None:
    body = b"id: 1\nevent: a\ndata: " + b"x" * 60 + b"\ndata: y\nid: 3\n\nevent: b\ndata: z\n\n"
    parser = SseParser(max_event_bytes=50)

    events = [
        event for at in range(0, len(body), size) for event in parser.feed(body[at : at + size])
    ]

    assert events == [SseEvent("b", b"z", "")]
    assert parser.dropped == 1


@pytest.mark.parametrize("part", [b"x" * 30, b"data: x\n", b"data\n"])
def test_an_event_without_end_is_counted_at_once_and_not_kept(part: bytes) -> None:
    parser = SseParser(max_event_bytes=100)

    for _ in range(1_000):
        assert parser.feed(part) == []

    assert parser.dropped == 1
    assert sum(map(len, (*parser._line, *parser._data))) <= 100
