"""Reader of request bodies: streaming decompression with limits on memory and time."""

import asyncio
import io
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import zstandard

from tracereel_collector.errors import (
    BadRequestError,
    TooLargeError,
    TooSlowError,
    UnsupportedError,
)
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares

PAUSE_SECONDS = 10.0
BODY_SECONDS = 30.0
MIN_BODY_RATE = 128 * 1024
"""Slowest accepted rate in bytes per second, after the first `body_seconds`."""
SMALL_BODY = 1024 * 1024
SMALL_BODIES = 64 * SMALL_BODY
"""Most memory for the first megabyte of all bodies together."""
MAX_STREAMS = 1000
"""Most gzip members or zstd frames of a body."""
MAX_ZSTD_WINDOW = 8 * 1024 * 1024
"""Largest window, as RFC 8878 recommends; a frame could otherwise claim gigabytes."""
ENCODINGS = ("identity", "gzip", "deflate", "zstd")
_CHUNK = 256 * 1024
_ZSTD_SLICE = 256
"""Input bytes per call: four can expand to 128 KiB, so a slice yields at most 8 MiB."""


class BodyReader:
    """Reads request bodies and limits the memory of all of them together."""

    def __init__(
        self,
        *,
        max_body_bytes: int,
        max_inflight_bytes: int,
        body_seconds: float = BODY_SECONDS,
        shares: SharePolicy = ONE_TENANT,
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self._seconds = body_seconds
        self._policy = shares
        self._large = TenantShares("body_bytes", max_inflight_bytes, shares)
        self._small = TenantShares("small_body_bytes", SMALL_BODIES, shares)

    @asynccontextmanager
    async def read(
        self,
        chunks: AsyncIterator[bytes],
        headers: Mapping[str, str],
        *,
        tenant: str,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> AsyncIterator[bytes]:
        """Yield the decompressed body; its memory is released at the end of the block.

        Raises:
            TooSlowError: it does not arrive in time.
            TooLargeError: it exceeds the limit; detected early by the declared length.
            UnsupportedError: the encoding is not supported.
            BadRequestError: the compressed data is corrupt or truncated.
            ThrottledError: the memory of all requests, or of this tenant, is used up.
        """
        encoding = headers.get("content-encoding", "").strip().lower() or "identity"
        if encoding not in ENCODINGS:
            raise UnsupportedError(
                f"content-encoding {encoding!r} is not supported;"
                f" expected one of {', '.join(ENCODINGS)}"
            )
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.max_body_bytes:
            raise _too_large(self.max_body_bytes)
        decoder = _Decoder(encoding, self.max_body_bytes)
        body = io.BytesIO()
        room = _Room(self._small, self._large, tenant)
        try:
            async for chunk in _in_time(chunks, self._seconds, pause_seconds):
                # In parts: a few bytes may decompress to the whole limit.
                for part in decoder.feed(chunk):
                    room.add(len(part), most=self._policy.most(self._large.total))
                    body.write(part)
            decoder.finish()
            # A list of parts to join would hold every body twice.
            yield body.getvalue()
        finally:
            room.give_back()

    @contextmanager
    def holding(self, size: int, *, tenant: str) -> Iterator[None]:
        """Reserve memory for a body before it is received as a whole.

        Raises:
            TooLargeError: it exceeds the limit.
            ThrottledError: the memory of all requests, or of this tenant, is used up.
        """
        if size > self.max_body_bytes:
            raise _too_large(self.max_body_bytes)
        room = _Room(self._small, self._large, tenant)
        try:
            room.add(size, most=self._policy.most(self._large.total))
            yield
        finally:
            room.give_back()


class _Room:
    """Memory reserved for one body.

    The first megabyte has a pool of its own, so that slow large bodies do not block small ones.
    """

    def __init__(self, small: TenantShares, large: TenantShares, tenant: str) -> None:
        self._small, self._large = small, large
        self._tenant = tenant
        self._held_small = self._held_large = 0

    def add(self, size: int, *, most: int) -> None:
        small = min(size, SMALL_BODY - self._held_small)
        large = size - small
        if small:
            self._small.take(self._tenant, small)
            self._held_small += small
        if large:
            if self._held_large + large > most:  # a retry would not fit either
                raise _too_large(SMALL_BODY + most)
            self._large.take(self._tenant, large)
            self._held_large += large

    def give_back(self) -> None:
        if self._held_large:
            self._large.give_back(self._tenant, self._held_large)
        if self._held_small:
            self._small.give_back(self._tenant, self._held_small)


async def _in_time(
    chunks: AsyncIterator[bytes], seconds: float, pause: float
) -> AsyncIterator[bytes]:
    """Yield chunks while they arrive fast enough."""
    waiting = aiter(chunks)
    started = time.monotonic()
    came = 0
    while True:
        left = started + seconds + came / MIN_BODY_RATE - time.monotonic()
        try:
            async with asyncio.timeout(min(pause, left)):
                chunk = await anext(waiting)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            if left < pause:
                raise TooSlowError(
                    f"the body took longer than {seconds:g} s and a second per {MIN_BODY_RATE} bytes"
                ) from error
            raise TooSlowError(f"nothing more of the body came for {pause:g} s") from error
        came += len(chunk)
        yield chunk


def _too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the body is larger than {max_bytes} bytes after decompression",
        hint="send it in smaller parts, or raise TRACEREEL_MAX_BODY_BYTES",
    )


class _Decoder:
    """Streaming decoder with limits on input, output and memory, against decompression bombs."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._encoding = encoding
        self._max = self._left = self._packed_left = max_bytes
        self._streams = 0
        self._stream: Any = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed parts of a chunk."""
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise _too_large(self._max)
        if self._encoding == "identity":
            yield chunk
            return
        # The output of a call to zstd is unlimited, so its input is.
        size = _ZSTD_SLICE if self._encoding == "zstd" else len(chunk)
        try:
            for begin in range(0, len(chunk), size or 1):
                yield from self._decompressed(chunk[begin : begin + size])
        except (zlib.error, zstandard.ZstdError) as error:
            raise BadRequestError(f"the compressed body cannot be read: {error}") from error

    def _decompressed(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._stream is None or self._stream.eof:  # streams may be concatenated
                self._stream = self._next_stream()
            if self._encoding == "zstd":
                part = self._stream.decompress(piece)
                piece = self._stream.unused_data if self._stream.eof else b""
            else:
                part = self._stream.decompress(piece, _CHUNK)
                piece = self._stream.unconsumed_tail or self._stream.unused_data
            self._left -= len(part)
            if self._left < 0:
                raise _too_large(self._max)
            if part:
                yield part

    def _next_stream(self) -> Any:
        self._streams += 1
        if self._streams > MAX_STREAMS:
            kind = "zstd frames" if self._encoding == "zstd" else "gzip members"
            raise BadRequestError(f"more than {MAX_STREAMS} {kind}")
        if self._encoding == "zstd":
            return zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW).decompressobj()
        return zlib.decompressobj(zlib.MAX_WBITS | (16 if self._encoding == "gzip" else 0))

    def finish(self) -> None:
        """Check that the body is complete."""
        if self._stream is not None and not self._stream.eof:
            raise BadRequestError("the compressed body ends before its end mark")
