"""Streaming codecs of ClickHouse's HTTP interface: gzip, deflate, lz4, zstd.

A driver compresses one frame per block, so a body is a sequence of frames. Each frame needs a new
decompressor; otherwise everything after the first is silently lost.
"""

import importlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tracereel_collector.engine.failures import Code, QueryError
from tracereel_collector.engine.http_message import ProtocolError

_PIECE = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class Compressor:
    """Compressor of a whole response into one frame; this one changes nothing."""

    def compress(self, data: bytes) -> bytes:
        """Return compressed bytes; data may be held back."""
        return data

    def flush(self) -> bytes:
        """Return the rest and end the frame."""
        return b""


def decompressed(encoding: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the plain bytes of all frames, in pieces of bounded size."""
    if encoding in {"", "identity"}:
        yield from chunks
        return
    if encoding not in _DECOMPRESSORS:
        raise QueryError(
            Code.NOT_IMPLEMENTED,
            f"Content-Encoding {encoding!r} is not read; accepted are {', '.join(_DECOMPRESSORS)}.",
        )
    frame = None
    try:
        for chunk in chunks:
            data = chunk
            while data:
                frame = frame or _DECOMPRESSORS[encoding]()
                piece = frame.decompress(data, _PIECE)
                data = b""
                while piece:
                    yield piece
                    piece = b"" if frame.eof else frame.decompress(b"", _PIECE)
                if frame.eof:
                    data, frame = frame.unused_data or b"", None
    except (QueryError, ProtocolError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - the four libraries share no exception class
        raise QueryError(Code.CANNOT_DECOMPRESS, f"The body is not {encoding}: {error}.") from None
    if frame is not None:
        raise QueryError(
            Code.CANNOT_DECOMPRESS, f"The last {encoding} frame of the body is cut short."
        )


def compressor_for(accept: str) -> tuple[str, Compressor] | None:
    """Return the first encoding of Accept-Encoding that can be written, and its compressor."""
    for offer in accept.split(","):
        name = offer.split(";")[0].strip().lower()
        if name in _COMPRESSORS:
            return name, _COMPRESSORS[name]()
    return None


class _ZlibFrame:
    """zlib's decompressor with the interface of bz2, lz4 and zstd, which keep unread input."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Lz4(Compressor):
    """lz4's compressor without its call to begin a frame."""

    def __init__(self) -> None:
        self._inner = _lz4().LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        head = b"" if self._begun else self._inner.begin()
        self._begun = True
        return bytes(head + self._inner.compress(data))

    def flush(self) -> bytes:
        return self.compress(b"") + bytes(self._inner.flush())


def _lz4() -> Any:
    return importlib.import_module("lz4.frame")


def _zstd() -> Any:
    return importlib.import_module(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: _ZlibFrame(_GZIP),
    "deflate": lambda: _ZlibFrame(zlib.MAX_WBITS),
    "lz4": lambda: _lz4().LZ4FrameDecompressor(),
    "zstd": lambda: _zstd().ZstdDecompressor(),
}
_COMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": _Lz4,
    "zstd": lambda: _zstd().ZstdCompressor(level=1),
    "gzip": lambda: zlib.compressobj(1, zlib.DEFLATED, _GZIP),
}
