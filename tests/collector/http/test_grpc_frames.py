"""HTTP/2 frames pass through however they are split; oversized headers end the connection."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import http2
from tracereel_collector.http.grpc_frames import (
    MAX_BLOCK_BYTES,
    MAX_FIELDS,
    MAX_FRAMES,
    STREAM_HEADER,
    FrameError,
    HeaderFilter,
    count_fields,
)

CALL = http2.call_headers(b"/service/Method", (b"x-api-key", b"k" * 300))


def headers(block, *, stream=1, flags=http2.END_HEADERS):
    return http2.frame(http2.HEADERS, stream, block, flags=flags)


def continuation(block, *, flags=0):
    return http2.frame(http2.CONTINUATION, 1, block, flags=flags)


NUMBER = continuation(http2.header(STREAM_HEADER.encode(), b"1"), flags=http2.END_HEADERS)
PADDED = 0x8 | 0x20
CAME_AND_PASSED = [
    (http2.PREFACE, None),
    (http2.frame(http2.SETTINGS, 0, bytes(12)), None),
    (headers(CALL), headers(CALL, flags=0) + NUMBER),
    (http2.frame(http2.DATA, 1, bytes(16_000)), None),
    (http2.frame(http2.DATA, 1), None),
    (headers(CALL[:100], flags=0) + continuation(CALL[100:200]), None),
    (continuation(CALL[200:], flags=http2.END_HEADERS), continuation(CALL[200:]) + NUMBER),
    (
        headers(b"\3" + bytes(5) + CALL + bytes(3), flags=http2.END_HEADERS | PADDED),
        headers(b"\3" + bytes(5) + CALL + bytes(3), flags=PADDED) + NUMBER,
    ),
    (http2.frame(http2.PING, 0, bytes(8)), None),
]
CAME = b"".join(came for came, _ in CAME_AND_PASSED)
PASSED = b"".join(came if passed is None else passed for came, passed in CAME_AND_PASSED)


@given(st.lists(st.integers(0, len(CAME)), max_size=30))
def test_bytes_pass_however_they_are_cut_and_headers_with_the_number_of_their_stream(cuts):
    edges = [0, *sorted(cuts), len(CAME)]
    passing = HeaderFilter()

    got = [passing.feed(CAME[a:b]) for a, b in itertools.pairwise(edges)]

    assert b"".join(got) == PASSED


def test_headers_are_held_back_until_all_of_them_are_there():
    passing = HeaderFilter()
    assert passing.feed(http2.PREFACE + headers(CALL[:50], flags=0)) == http2.PREFACE
    assert passing.feed(continuation(CALL[50:100])) == b""

    assert len(passing.feed(continuation(CALL[100:], flags=http2.END_HEADERS))) > len(CALL)


@pytest.mark.parametrize(
    "frames",
    [
        headers(http2.header(b"a", b"") * (MAX_FIELDS + 1)),
        headers(b"\x82" * (MAX_FIELDS + 1)),
        headers(bytes(MAX_BLOCK_BYTES)),
        headers(CALL, flags=0) + continuation(b"") * (MAX_BLOCK_BYTES // 9),
        headers(CALL, flags=0) + continuation(bytes(8_000)) * 2,
        headers(CALL, flags=0) + continuation(b"") * MAX_FRAMES,
        headers(CALL, flags=0) + http2.frame(http2.PING, 0, bytes(8)),
        headers(b"\x00\x7f" + b"\xff" * 20),
        headers(b"\x00\x05abc"),
        headers(b"", flags=http2.END_HEADERS | 0x8),
        continuation(CALL, flags=http2.END_HEADERS),
    ],
    ids=range(11),
)
def test_headers_over_a_limit_or_broken_end_the_connection(frames):
    passing = HeaderFilter()
    passing.feed(http2.PREFACE)

    with pytest.raises(FrameError):
        passing.feed(frames)


def test_invalid_http2_ends_the_connection():
    with pytest.raises(FrameError):
        HeaderFilter().feed(b"GET / HTTP/1.1\r\n")


def test_fields_of_every_kind_are_counted():
    indexed, sized = b"\x82\xff\x10", b"\x3f\xe1\x1f"
    literal = b"\x40\x01a\x01b" + b"\x41\x01b" + b"\x0f\x2f\x01b" + b"\x10\x01a\x00"

    assert count_fields(sized + indexed + literal) == 6
