"""zstd with a ceiling on what comes out and on the memory it takes to get there."""

from collections.abc import Callable

import zstandard

from tracereel_collector.errors import BadRequestError

MAX_WINDOW = 8 * 1024 * 1024
"""What RFC 8878 asks decoders to support; a frame may otherwise claim gigabytes."""
MAX_FRAMES = 1000
_SLICE = 256
"""Four bytes can stand for 128 KiB, and a call returns all it finds: at most 8 MiB from a slice."""


class Unzstd:
    """Decompresses chunks as they come; a bomb stops at the limit."""

    def __init__(self, max_bytes: int, *, too_large: Callable[[int], Exception]) -> None:
        self._max = max_bytes
        self._left = max_bytes
        self._packed_left = max_bytes
        self._too_large = too_large
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._stream = self._decompressor.decompressobj()
        self._frames = 1
        self._started = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """What a chunk decompresses to."""
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise self._too_large(self._max)
        parts = []
        try:
            for begin in range(0, len(chunk), _SLICE):
                parts += self._feed(chunk[begin : begin + _SLICE])
        except zstandard.ZstdError as error:
            raise BadRequestError(f"the compressed body cannot be read: {error}") from error
        return parts

    def _feed(self, piece: bytes) -> list[bytes]:
        parts = []
        while piece:
            if self._stream.eof:  # frames may follow one another
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
                parts.append(part)
        return parts

    def finish(self) -> None:
        """The body ends here.

        Raises:
            BadRequestError: but its last frame does not.
        """
        if self._started and not self._stream.eof:
            raise BadRequestError("the compressed body ends before its end mark")
