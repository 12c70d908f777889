"""The size of a gRPC message is read from its first bytes, however they are framed."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import http2
from tracereel_collector.http.grpc_frames import (
    MAX_CALLS,
    FrameError,
    HeaderFilter,
    MessageHead,
    MessageHeads,
)

CALL = http2.call_headers(b"/service/Method")
MESSAGE = http2.message(bytes(1_000), is_packed=True)
HEAD = MessageHead(1_000, is_packed=True)
PADDED = 0x8


def headers(stream, *, flags=0):
    return http2.frame(http2.HEADERS, stream, CALL, flags=http2.END_HEADERS | flags)


def padded(data, padding):
    payload = bytes([padding]) + data + b"\xff" * padding
    return http2.frame(http2.DATA, 1, payload, flags=PADDED)


def head_of(frames, *, stream=1):
    """Return the head of a message after these frames, or "waits" if it is incomplete."""
    passing = HeaderFilter()
    passing.feed(http2.PREFACE)

    async def ask():
        passing.feed(frames)
        return await asyncio.wait_for(passing.messages.wait_for(stream), 0.05)

    try:
        return asyncio.run(ask())
    except TimeoutError:
        return "waits"


@given(
    st.lists(st.integers(0, len(MESSAGE)), max_size=8),
    st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=9),
)
def test_the_head_is_read_from_frames_of_any_size(cuts, paddings):
    edges = [0, *sorted(cuts), len(MESSAGE)]
    parts = [MESSAGE[a:b] for a, b in itertools.pairwise(edges)]
    frames = [
        http2.frame(http2.DATA, 1, part) if padding is None else padded(part, padding)
        for part, padding in zip(parts, paddings, strict=False)
    ]

    assert head_of(headers(1) + b"".join(frames)) == HEAD


@pytest.mark.parametrize(
    ("frames", "known"),
    [
        (headers(1), "waits"),
        (headers(1) + http2.frame(http2.DATA, 1, MESSAGE[:4]), "waits"),
        (headers(1) + http2.frame(http2.DATA, 1, MESSAGE), HEAD),
        (headers(1) + headers(3) + http2.frame(http2.DATA, 3, MESSAGE), "waits"),
        (headers(1, flags=http2.END_STREAM), None),
        (headers(1) + http2.frame(http2.DATA, 1, MESSAGE[:4], flags=http2.END_STREAM), None),
        (headers(1) + http2.frame(http2.RST_STREAM, 1, http2.CANCEL), None),
        (headers(1) + http2.frame(http2.DATA, 1, MESSAGE) + headers(1), HEAD),
    ],
    ids=range(8),
)
def test_a_call_without_a_message_is_known_from_one_whose_message_is_to_come(frames, known):
    assert head_of(frames) == known


def test_padding_beyond_the_frame_ends_the_connection():
    frame = http2.frame(http2.DATA, 1, b"\x06" + MESSAGE[:5], flags=PADDED)

    with pytest.raises(FrameError):
        head_of(headers(1) + frame)


def test_waiter_resumes_at_message_start_or_disconnect():
    async def run():
        messages = MessageHeads()
        messages.begin(1)
        messages.begin(3)
        waiting = [asyncio.create_task(messages.wait_for(stream)) for stream in (1, 3)]
        await asyncio.wait(waiting, timeout=0)
        messages.add(1, MESSAGE)
        messages.end_all()
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [HEAD, None]


def test_pending_calls_are_bounded():
    messages = MessageHeads()
    for stream in range(1, 4 * MAX_CALLS, 2):
        messages.begin(stream)

    assert not messages.is_missing(1)
    assert messages.is_missing(4 * MAX_CALLS - 1)
    assert len(messages._calls) == MAX_CALLS
