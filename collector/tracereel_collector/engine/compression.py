"""Decompression of request bodies: gzip, deflate, lz4, zstd.

A driver compresses one frame per block, so a body is a sequence of frames. Each frame needs a new
decompressor; otherwise everything after the first is silently lost.
Responses are not compressed: the engine listens on loopback.
"""

import importlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tracereel_collector.engine.failures import Code, QueryError
from tracereel_collector.engine.http_message import ProtocolError

_PIECE = 1024 * 1024


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


class _ZlibFrame:
    """zlib's decompressor with the interface of bz2, lz4 and zstd, which keep unread input."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: _ZlibFrame(16 + zlib.MAX_WBITS),
    "deflate": lambda: _ZlibFrame(zlib.MAX_WBITS),
    # Imported late: only other clients compress their requests.
    "lz4": lambda: importlib.import_module("lz4.frame").LZ4FrameDecompressor(),
    "zstd": lambda: importlib.import_module(_ZSTD).ZstdDecompressor(),
}
