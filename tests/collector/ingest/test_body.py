"""Request bodies are decompressed while streaming and stop at their limits."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.errors import (
    BadRequestError,
    ThrottledError,
    TooLargeError,
    TooSlowError,
    UnsupportedError,
)
from tracereel_collector.ingest.body import SMALL_BODY, BodyReader
from tracereel_collector.runtime.tenant_shares import SharePolicy


def read(*chunks, headers=None, max_body=1000, inflight=10_000):
    reader = BodyReader(max_body_bytes=max_body, max_inflight_bytes=inflight)

    async def stream():
        for chunk in chunks:
            yield chunk

    async def run():
        async with reader.read(stream(), headers or {}, tenant="t") as data:
            return data

    return asyncio.run(run())


GZIP = {"content-encoding": "gzip"}
ZSTD = {"content-encoding": "zstd"}
PACKERS = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


@given(st.lists(st.binary(max_size=50), max_size=10), st.sampled_from(sorted(PACKERS)))
def test_a_body_is_the_same_however_it_is_packed_and_cut(parts, encoding):
    plain = b"".join(parts)
    packed = PACKERS[encoding](plain)
    chunks = [packed[start : start + 7] for start in range(0, len(packed), 7)]

    assert read(*chunks, headers={"content-encoding": encoding}) == plain


def test_gzip_members_one_after_another_are_one_body():
    assert read(gzip.compress(b"a") + gzip.compress(b"b"), headers=GZIP) == b"ab"


def test_a_declared_length_over_the_limit_is_refused_before_reading():
    async def never():
        raise AssertionError("the body was read")
        yield b""

    async def run():
        reader = BodyReader(max_body_bytes=10, max_inflight_bytes=10)
        async with reader.read(never(), {"content-length": "11"}, tenant="t"):
            pass

    with pytest.raises(TooLargeError, match="larger than 10 bytes"):
        asyncio.run(run())


def test_an_undeclared_body_stops_at_the_limit():
    with pytest.raises(TooLargeError):
        read(b"x" * 600, b"x" * 600)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_gzip_bomb_stops_at_the_limit_while_streaming(encoding):
    bomb = PACKERS[encoding](bytes(200_000_000))
    with pytest.raises(TooLargeError):
        read(bomb, headers={"content-encoding": encoding}, max_body=1 << 20, inflight=1 << 22)


@pytest.mark.parametrize(
    "broken",
    [b"not gzip", gzip.compress(b"x" * 100)[:-9], gzip.compress(b"x") + b"trailing"],
    ids=["nonsense", "cut short", "something behind it"],
)
def test_broken_compression_is_a_bad_request(broken):
    with pytest.raises(BadRequestError):
        read(broken, headers=GZIP)


def test_an_unknown_encoding_is_answered_with_the_known_ones():
    with pytest.raises(UnsupportedError, match="'br' is not supported; expected one of identity"):
        read(b"", headers={"content-encoding": "br"})


def test_all_requests_together_hold_no_more_than_allowed():
    large = SMALL_BODY + 700
    reader = BodyReader(max_body_bytes=2 * large, max_inflight_bytes=1000)

    async def stream(size=large):
        yield b"x" * size

    async def run():
        async with reader.read(stream(), {}, tenant="t"):
            with pytest.raises(ThrottledError):
                async with reader.read(stream(), {}, tenant="t"):
                    pass
            async with reader.read(stream(SMALL_BODY), {}, tenant="t"):
                pass  # a small body is never blocked by large ones
        async with reader.read(stream(), {}, tenant="t") as data:
            return len(data)

    assert asyncio.run(run()) == large


def test_a_stalled_body_is_refused_after_a_timeout():
    async def run():
        reader = BodyReader(max_body_bytes=1000, max_inflight_bytes=1000)

        async def stalled():
            yield b"x"
            await asyncio.Event().wait()

        async with reader.read(stalled(), {}, tenant="t", pause_seconds=0.01):
            pass

    with pytest.raises(TooSlowError, match="nothing more of the body"):
        asyncio.run(run())


def test_endless_empty_gzip_members_are_refused():
    with pytest.raises(BadRequestError, match="gzip members"):
        read(gzip.compress(b"") * 2000, headers=GZIP, max_body=1 << 20)


def test_zstd_frames_one_after_another_are_one_body():
    assert read(zstandard.compress(b"a") + zstandard.compress(b"b"), headers=ZSTD) == b"ab"


def test_a_zstd_bomb_stops_at_the_limit_and_takes_little_memory():
    bomb = zstandard.compress(b"\0" * 200_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            read(bomb, headers=ZSTD)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (zstandard.compress(b"cut" * 100)[:-3], "ends before its end mark"),
        (b"not zstd at all", "cannot be read"),
        (zstandard.compress(b"x") + b"trailing", "cannot be read"),
        (zstandard.compress(b"") * 1_001, "more than 1000 zstd frames"),
    ],
)
def test_broken_zstd_is_refused(packed, problem):
    with pytest.raises(BadRequestError, match=problem):
        read(packed, headers=ZSTD, max_body=1_000_000)


def test_zstd_frame_with_a_huge_window_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(b"x" * 100) + stream.flush()

    with pytest.raises(BadRequestError, match="cannot be read"):
        read(packed, headers=ZSTD)


def half_sent(size):
    async def stream():
        yield b"x" * size
        await asyncio.Event().wait()

    return stream()


async def whole(size):
    yield b"x" * size


def test_half_sent_bodies_of_a_tenant_leave_room_for_others():
    several = SharePolicy(has_several_tenants=lambda: True)
    large = SMALL_BODY + 100
    reader = BodyReader(max_body_bytes=2 * large, max_inflight_bytes=1000, shares=several)

    async def hold(size):
        async with reader.read(half_sent(size), {}, tenant="noisy"):
            pass

    async def run():
        noisy = [asyncio.create_task(hold(large)) for _ in range(20)]
        done, _ = await asyncio.wait(noisy, timeout=0.1)
        refused = [each.exception() for each in done]
        async with reader.read(whole(SMALL_BODY + 200), {}, tenant="quiet") as data:
            taken = len(data)
        for each in noisy:
            each.cancel()
        await asyncio.gather(*noisy, return_exceptions=True)
        return refused, taken

    refused, taken = asyncio.run(run())
    assert taken == SMALL_BODY + 200
    assert len(refused) == 15
    assert all(isinstance(each, ThrottledError) for each in refused)


def test_body_larger_than_a_tenants_share_is_refused_permanently():
    several = SharePolicy(has_several_tenants=lambda: True)
    reader = BodyReader(max_body_bytes=2 * SMALL_BODY, max_inflight_bytes=1000, shares=several)

    async def run():
        async with reader.read(whole(SMALL_BODY + 501), {}, tenant="t"):
            pass

    with pytest.raises(TooLargeError, match=f"larger than {SMALL_BODY + 500} bytes"):
        asyncio.run(run())
