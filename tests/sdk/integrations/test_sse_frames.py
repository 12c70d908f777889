"""SSE frames from bytes, text and lines: independent of how the stream is split."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel._runtime.sse_parser import MAX_EVENT_BYTES
from tracereel.integrations.sse import Frame, FrameReader

TEXTS = st.text(alphabet='añ€😀 {}:"data', max_size=12)
NAMES = st.sampled_from(["token", "tool_status", "done", "error", "ping"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def bodies(draw):
    """Return a body and its frames."""
    end = draw(ENDS)
    lines, frames = [], []
    drawn = st.lists(st.tuples(NAMES, st.lists(TEXTS, min_size=1, max_size=3)), max_size=4)
    for name, texts in draw(drawn):
        if draw(st.booleans()):
            lines.append(": a comment")
        lines.append(f"event: {name}")
        lines += [f"data: {text}" for text in texts] + [""]
        frames.append(Frame(name, "\n".join(texts)))
    body = "".join(f"{line}{end}" for line in lines)
    return draw(st.sampled_from(["", "\ufeff"])) + body, frames


def pieces(data, cuts):
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    bounds = [0, *places, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds) if b > a]


def read(items, **options):
    reader = FrameReader(**options)
    return [frame for item in items for frame in reader.read(item)]


@given(bodies(), st.lists(st.integers(0, 10_000), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_frames(body_and_frames, cuts):
    body, frames = body_and_frames

    assert read(pieces(body.encode(), cuts)) == frames
    assert read([bytes([byte]) for byte in body.encode()]) == frames


@given(bodies(), st.lists(st.integers(0, 10_000), max_size=20))
def test_any_split_of_the_text_gives_the_same_frames(body_and_frames, cuts):
    body, frames = body_and_frames

    assert read(pieces(body, cuts)) == frames


@given(bodies())
def test_lines_give_the_same_frames(body_and_frames):
    body, frames = body_and_frames
    lines = body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]

    assert read(lines) == frames
    assert read([line.encode() for line in lines]) == frames


@given(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=40), st.integers(), st.none())))
def test_nothing_that_a_stream_may_give_is_an_error(items):
    for frame in read(items):
        frame.payload()


@pytest.mark.parametrize(
    "item",
    [
        ("token", {"text": "a"}),
        {"event": "token", "data": {"text": "a"}},
        {"event": "token", "data": '{"text":"a"}'},
        {"type": "token", "text": "a"},
        SimpleNamespace(event="token", data='{"text":"a"}'),
    ],
)
def test_frames_may_come_as_objects(item):
    (frame,) = read([item])

    assert (frame.event, frame.payload()) == ("token", {"text": "a"})


def test_openai_done_marker_ends_the_stream():
    assert [frame.event for frame in read(["data: [DONE]\n\n"])] == ["done"]


def test_frames_that_are_too_long_are_counted():
    reader = FrameReader(lines=False)

    assert reader.read("data: " + "x" * MAX_EVENT_BYTES) == []
    assert reader.read("\n\nevent: done\ndata: {}\n\n") == [Frame("done", "{}")]
    assert reader.given_up == 1
