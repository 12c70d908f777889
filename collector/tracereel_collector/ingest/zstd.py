"""zstd decoder with limits on output and memory."""

from collections.abc import Callable, Iterator

import zstandard

from tracereel_collector.errors import BadRequestError

MAX_WINDOW = 8 * 1024 * 1024
"""Largest window, as RFC 8878 recommends; a frame could otherwise claim gigabytes."""
MAX_FRAMES = 1000
_SLICE = 256
"""Input bytes per call, since the output of a call is unlimited.

Four bytes can expand to 128 KiB, so a slice yields at most 8 MiB.
"""


class Unzstd:
    """Streaming decoder with a limit on the output, against decompression bombs."""

    def __init__(self, max_bytes: int, *, too_large: Callable[[int], Exception]) -> None:
        self._max = max_bytes
        self._left = max_bytes
        self._packed_left = max_bytes
        self._too_large = too_large
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._stream = self._decompressor.decompressobj()
        self._frames = 1
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed parts of a chunk."""
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise self._too_large(self._max)
        try:
            for begin in range(0, len(chunk), _SLICE):
                yield from self._feed(chunk[begin : begin + _SLICE])
        except zstandard.ZstdError as error:
            raise BadRequestError(f"the compressed body cannot be read: {error}") from error

    def _feed(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._stream.eof:  # frames may be concatenated
                self._frames += 1
                if self._frames > MAX_FRAMES:
                    raise BadRequestError(f"more than {MAX_FRAMES} zstd frames")
                self._stream = self._decompressor.decompressobj()
            self._started = True
            part = self._stream.decompress(piece)
            piece = self._stream.unused_data if self._stream.eof else b""
            self._left -= len(part)
            if self._left < 0:
                raise self._too_large(self._max)
            if part:
                yield part

    def finish(self) -> None:
        """Check that the body is complete.

        Raises:
            BadRequestError: the last frame is truncated.
        """
        if self._started and not self._stream.eof:
            raise BadRequestError("the compressed body ends before its end mark")
