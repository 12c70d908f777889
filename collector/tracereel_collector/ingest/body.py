"""Reading a request body: decompressed as it comes, and never more of it in memory than allowed."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tracereel_collector.errors import (
    BadRequestError,
    ThrottledError,
    TooLargeError,
    TooSlowError,
    UnsupportedError,
)
from tracereel_collector.ingest.zstd import Unzstd

PAUSE_SECONDS = 10.0
BODY_SECONDS = 30.0
MIN_BODY_RATE = 128 * 1024
"""Bytes per second: what a body may take longer for every byte of it that has come."""
SMALL_BODY = 1024 * 1024
SMALL_BODIES = 64 * SMALL_BODY
"""What the first megabytes of all bodies may hold together."""
MAX_GZIP_MEMBERS = 1000
ENCODINGS = ("identity", "gzip", "deflate", "zstd")
_CHUNK = 256 * 1024


class BodyReader:
    """Reads bodies for all requests and bounds what they hold together."""

    def __init__(
        self,
        *,
        max_body_bytes: int,
        max_inflight_bytes: int,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.max_body_bytes = self._max_body = max_body_bytes
        self._max_inflight = max_inflight_bytes
        self._seconds = body_seconds
        self._held = 0
        self._held_small = 0

    @asynccontextmanager
    async def read(
        self,
        chunks: AsyncIterator[bytes],
        headers: Mapping[str, str],
        *,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> AsyncIterator[bytes]:
        """The decompressed body of a request, held until the block is left.

        Raises:
            TooSlowError: it does not come in time.
            TooLargeError: more than the limit, told from the declared length where there is one.
            UnsupportedError: an encoding that is not read here.
            BadRequestError: compressed data that is broken or ends early.
            ThrottledError: all requests together hold too much.
        """
        encoding = headers.get("content-encoding", "").strip().lower() or "identity"
        if encoding not in ENCODINGS:
            raise UnsupportedError(
                f"content-encoding {encoding!r} is not supported;"
                f" expected one of {', '.join(ENCODINGS)}"
            )
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_body:
            raise _too_large(self._max_body)
        decoder = _decoder_of(encoding, self._max_body)
        parts: list[bytes] = []
        held = held_small = 0
        try:
            async for chunk in _in_time(chunks, self._seconds, pause_seconds):
                fresh = decoder.feed(chunk)
                size = sum(map(len, fresh))
                # Small bodies have room of their own: large ones that dawdle must not keep them out.
                small = min(size, SMALL_BODY - held_small)
                large = size - small
                if (
                    self._held_small + small > SMALL_BODIES
                    or self._held + large > self._max_inflight
                ):
                    raise ThrottledError("too many requests at once", hint="try again soon")
                self._held_small += small
                self._held += large
                held_small += small
                held += large
                parts.extend(fresh)
            decoder.finish()
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()  # or every body would be held twice while it is worked on
            yield data
        finally:
            self._held -= held
            self._held_small -= held_small


async def _in_time(
    chunks: AsyncIterator[bytes], seconds: float, pause: float
) -> AsyncIterator[bytes]:
    """The chunks, as long as they keep coming and do not only trickle."""
    seconds = max(seconds, pause) if pause > PAUSE_SECONDS else seconds
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


def _decoder_of(encoding: str, max_bytes: int) -> "_Plain | _Inflate | Unzstd":
    if encoding == "identity":
        return _Plain(max_bytes)
    if encoding == "zstd":
        return Unzstd(max_bytes, too_large=_too_large)
    return _Inflate(max_bytes, gzip=encoding == "gzip")


class _Plain:
    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._max = max_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._max)
        return [chunk] if chunk else []

    def finish(self) -> None:
        """Plain bytes have no end mark."""


class _Inflate:
    """zlib with a ceiling on what comes out, so that a bomb stops at the limit."""

    def __init__(self, max_bytes: int, *, gzip: bool) -> None:
        self._max = max_bytes
        self._left = max_bytes
        self._gzip = gzip
        self._stream = self._new_stream()
        self._started = False
        self._members = 1
        self._packed_left = max_bytes

    def _new_stream(self) -> "zlib._Decompress":
        return zlib.decompressobj(zlib.MAX_WBITS | (16 if self._gzip else 0))

    def feed(self, chunk: bytes) -> list[bytes]:
        parts: list[bytes] = []
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise _too_large(self._max)
        try:
            while chunk:
                if self._stream.eof:  # gzip allows members one after another
                    self._members += 1
                    if self._members > MAX_GZIP_MEMBERS:
                        raise BadRequestError(f"more than {MAX_GZIP_MEMBERS} gzip members")
                    self._stream = self._new_stream()
                self._started = True
                part = self._stream.decompress(chunk, _CHUNK)
                chunk = self._stream.unconsumed_tail or self._stream.unused_data
                self._left -= len(part)
                if self._left < 0:
                    raise _too_large(self._max)
                parts.append(part)
        except zlib.error as error:
            raise BadRequestError(f"the compressed body cannot be read: {error}") from error
        return parts

    def finish(self) -> None:
        if self._started and not self._stream.eof:
            raise BadRequestError("the compressed body ends before its end mark")
