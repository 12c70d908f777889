"""Streaming codecs of ClickHouse's HTTP interface: gzip, deflate, lz4, zstd.

A driver compresses one frame per block, so a body is a sequence of frames. Each frame needs a new
decompressor; otherwise everything after the first is silently lost.
"""

import importlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from tracereel_collector.engine.failures import CANNOT_DECOMPRESS, NOT_IMPLEMENTED, QueryError
from tracereel_collector.engine.http_message import ProtocolError

READABLE = ("gzip", "deflate", "lz4", "zstd")
WRITABLE = ("lz4", "zstd", "gzip")
_PIECE = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class _Decompressor(Protocol):
    """Decompressor of one frame; both methods MAY be called until `eof`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused(self) -> bytes: ...
    def more(self, data: bytes) -> bytes:
        """Return at most about _PIECE bytes; MUST be called with b"" until it returns b""."""
        ...


class Compressor(Protocol):
    """Compressor of a whole response into one frame."""

    def feed(self, data: bytes) -> bytes: ...
    def finish(self) -> bytes: ...


def decompressed(encoding: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the plain bytes of all frames, in pieces of bounded size."""
    if encoding in {"", "identity"}:
        yield from chunks
        return
    if encoding not in READABLE:
        raise QueryError(
            NOT_IMPLEMENTED,
            f"Content-Encoding {encoding!r} is not read; accepted are {', '.join(READABLE)}.",
        )
    frame: _Decompressor | None = None
    try:
        for chunk in chunks:
            data = chunk
            while data:
                frame = frame or _new_frame(encoding)
                piece = frame.more(data)
                data = b""
                while piece:
                    yield piece
                    piece = b"" if frame.eof else frame.more(b"")
                if frame.eof:
                    data, frame = frame.unused, None
    except QueryError:
        raise
    except (ProtocolError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - the four libraries share no exception class
        raise QueryError(CANNOT_DECOMPRESS, f"The body is not {encoding}: {error}.") from None
    if frame is not None:
        raise QueryError(CANNOT_DECOMPRESS, f"The last {encoding} frame of the body is cut short.")


def chosen_encoding(accept: str) -> str | None:
    """Return the first encoding in Accept-Encoding that can be written; None if none can."""
    for offer in accept.split(","):
        name = offer.split(";")[0].strip().lower()
        if name in WRITABLE:
            return name
    return None


def compressor(encoding: str) -> Compressor:
    return _COMPRESSORS[encoding]()


class _ZlibFrame:
    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused(self) -> bytes:
        return self._inner.unused_data

    def more(self, data: bytes) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, _PIECE)


class _BoundedFrame:
    """Adapter for lz4 and zstd, which share bz2's interface: max_length, eof, unused_data."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused(self) -> bytes:
        return self._inner.unused_data or b""

    def more(self, data: bytes) -> bytes:
        return bytes(self._inner.decompress(data, max_length=_PIECE))


def _lz4() -> Any:
    return importlib.import_module("lz4.frame")


def _zstd() -> Any:
    return importlib.import_module(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )


def _new_frame(encoding: str) -> _Decompressor:
    if encoding == "gzip":
        return _ZlibFrame(_GZIP)
    if encoding == "deflate":
        return _ZlibFrame(zlib.MAX_WBITS)
    if encoding == "lz4":
        return _BoundedFrame(_lz4().LZ4FrameDecompressor())
    return _BoundedFrame(_zstd().ZstdDecompressor())


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.compressobj(1, zlib.DEFLATED, _GZIP)

    def feed(self, data: bytes) -> bytes:
        return self._inner.compress(data)

    def finish(self) -> bytes:
        return self._inner.flush()


class _Lz4:
    def __init__(self) -> None:
        self._inner = _lz4().LZ4FrameCompressor()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        head = b"" if self._begun else self._inner.begin()
        self._begun = True
        return bytes(head + self._inner.compress(data))

    def finish(self) -> bytes:
        return self.feed(b"") + bytes(self._inner.flush())


class _Zstd:
    def __init__(self) -> None:
        self._inner = _zstd().ZstdCompressor(level=1)

    def feed(self, data: bytes) -> bytes:
        return bytes(self._inner.compress(data))

    def finish(self) -> bytes:
        return bytes(self._inner.flush())


_COMPRESSORS: dict[str, Callable[[], Compressor]] = {"gzip": _Gzip, "lz4": _Lz4, "zstd": _Zstd}
