"""Minimal HTTP/1.1 on a socket, as ClickHouse's clients use it: heads, bodies, responses."""

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

_HEAD_LIMIT = 2 * 1024 * 1024
_MAX_HEADERS = 200
_MAX_PARAMETERS = 10_000
_RECV = 256 * 1024
_SMALL = 64 * 1024


class ProtocolError(Exception):
    """Malformed HTTP request; the connection is closed."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Request line and headers; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    keep_alive: bool

    def header(self, name: str) -> str:
        """Return a header's value; empty if it is missing."""
        return self.headers.get(name, "")

    @property
    def has_body(self) -> bool:
        """Whether the head announces a body."""
        return self.header("content-length") not in {"", "0"} or "transfer-encoding" in self.headers


class Wire:
    """HTTP connection: socket and receive buffer."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self.body_left = False
        """True while the current request's body has not been read completely."""

    def read_head(self, *, first_byte_seconds: float, seconds: float) -> RequestHead | None:
        """Read the next request's head; None if the peer closed or was too slow."""
        self._socket.settimeout(first_byte_seconds)
        deadline = None
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", searched)) < 0:
            if len(self._buffer) > _HEAD_LIMIT:
                raise ProtocolError(f"request head over {_HEAD_LIMIT} bytes")
            searched = max(0, len(self._buffer) - 3)
            if deadline is not None:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(_SMALL)
            except TimeoutError:
                return None
            if not data:
                return None
            self._buffer += data
            deadline = deadline or time.monotonic() + seconds
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        return _parse_head(raw)

    def wait_at_most(self, seconds: float) -> None:
        """Set the timeout for a peer that neither sends nor receives."""
        self._socket.settimeout(seconds)

    def body(self, head: RequestHead) -> Iterator[bytes]:
        """Yield the body as it arrives, without framing."""
        chunked = "chunked" in head.header("transfer-encoding").lower()
        length = head.header("content-length") or "0"
        if not chunked and not (length.isascii() and length.isdigit()):
            raise ProtocolError(f"Content-Length {length!r} is not a number")
        if not chunked and int(length) == 0:
            return
        self.body_left = True
        if head.header("expect").lower() == "100-continue":
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if chunked:
            yield from self._chunks()
        else:
            yield from self._take(int(length))
        self.body_left = False

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole response."""
        head = _answer_head(status, {**headers, "Content-Length": str(len(body))})
        if len(body) <= _SMALL:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)

    def begin_chunks(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of a response whose length is not known yet."""
        self._socket.sendall(_answer_head(status, {**headers, "Transfer-Encoding": "chunked"}))

    def chunk(self, data: bytes) -> None:
        """Send a part of the body, unless it is empty."""
        if data:
            self._socket.sendall(b"%x\r\n" % len(data) + data + b"\r\n")

    def end_chunks(self) -> None:
        """Send the end of the body."""
        self._socket.sendall(b"0\r\n\r\n")

    def linger(self, *, limit: int, seconds: float) -> None:
        """Discard remaining input, so that the peer reads the response instead of a reset."""
        deadline = time.monotonic() + seconds
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while limit > 0 and (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                data = self._socket.recv(_RECV)
                if not data:
                    break
                limit -= len(data)
        except OSError:
            pass  # the peer has closed

    def _take(self, count: int) -> Iterator[bytes]:
        if self._buffer:
            piece = bytes(self._buffer[:count])
            del self._buffer[:count]
            count -= len(piece)
            yield piece
        while count:
            piece = self._receive(min(count, _RECV))
            count -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = self._line().split(b";")[0].strip()
            try:
                count = int(size, 16)
            except ValueError:
                raise ProtocolError(f"chunk size {size[:20]!r} is not hexadecimal") from None
            if count <= 0:
                break
            yield from self._take(count)
            if self._line():
                raise ProtocolError("a chunk is longer than it says")
        while self._line():
            pass

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _SMALL:
                raise ProtocolError(f"line over {_SMALL} bytes")
            self._buffer += self._receive(_SMALL)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _receive(self, count: int) -> bytes:
        data = self._socket.recv(count)
        if not data:
            raise ProtocolError("the peer closed in the middle of a request")
        return data


def _parse_head(raw: bytes) -> RequestHead:
    if raw.count(b"\r\n") > _MAX_HEADERS:
        raise ProtocolError(f"more than {_MAX_HEADERS} header lines")
    request, *lines = raw.decode("latin-1").split("\r\n")
    parts = request.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise ProtocolError(f"request line {request[:80]!r} is not HTTP/1.x")
    method, target, version = parts
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolError(f"header line {line[:80]!r} has no colon")
        headers[name.strip().lower()] = value.strip()
    path, _, query = target.partition("?")
    if query.count("&") >= _MAX_PARAMETERS:
        raise ProtocolError(f"more than {_MAX_PARAMETERS} parameters")
    connection = headers.get("connection", "").lower()
    return RequestHead(
        method=method.upper(),
        path=path,
        query=dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape")),
        headers=headers,
        keep_alive="close" not in connection
        and (version != "HTTP/1.0" or "keep-alive" in connection),
    )


def _answer_head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    # A line break in a value would let the peer inject headers.
    lines += [
        f"{name}: {value}".replace("\r", " ").replace("\n", " ") for name, value in headers.items()
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
