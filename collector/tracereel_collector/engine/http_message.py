"""HTTP/1.1 on a socket, as much as ClickHouse's clients use: heads, framed bodies, answers."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

_HEAD_LIMIT = 2 * 1024 * 1024
_RECV = 256 * 1024
_SMALL = 64 * 1024
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class ProtocolError(Exception):
    """The bytes are not an HTTP request we can answer; the connection ends."""


@dataclass(frozen=True, slots=True)
class Head:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    keep_alive: bool

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


class Wire:
    """One connection: bytes that have arrived and not been used, and what has been sent."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self.body_left = False
        """True while the body of the current request has not been read to its end."""

    def read_head(self, *, first_byte_timeout: float, timeout: float) -> Head | None:
        """The next request, or None when the peer has closed or said nothing for too long."""
        self._socket.settimeout(first_byte_timeout)
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", searched)) < 0:
            if len(self._buffer) > _HEAD_LIMIT:
                raise ProtocolError(f"request head over {_HEAD_LIMIT} bytes")
            searched = max(0, len(self._buffer) - 3)
            try:
                data = self._socket.recv(_SMALL)
            except TimeoutError:
                return None
            if not data:
                return None
            self._buffer += data
            self._socket.settimeout(timeout)
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        self._socket.settimeout(timeout)
        return _parse_head(raw)

    def body(self, head: Head) -> Iterator[bytes]:
        """The body as it arrives, framing removed."""
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
        head = _answer_head(status, {**headers, "Content-Length": str(len(body))})
        if len(body) <= _SMALL:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)

    def begin_chunks(self, status: int, headers: Mapping[str, str]) -> None:
        self._socket.sendall(_answer_head(status, {**headers, "Transfer-Encoding": "chunked"}))

    def chunk(self, data: bytes) -> None:
        if data:
            self._socket.sendall(b"%x\r\n" % len(data) + data + b"\r\n")

    def end_chunks(self) -> None:
        self._socket.sendall(b"0\r\n\r\n")

    def linger(self, *, limit: int, seconds: float) -> None:
        """Take what the peer still sends, so that it reads our answer instead of a reset."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(seconds)
            while limit > 0 and (data := self._socket.recv(_RECV)):
                limit -= len(data)
        except OSError:
            pass  # the peer is gone, which is what we wait for

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


def _parse_head(raw: bytes) -> Head:
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
    connection = headers.get("connection", "").lower()
    return Head(
        method=method.upper(),
        path=path,
        query=dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape")),
        headers=headers,
        keep_alive="close" not in connection
        and (version != "HTTP/1.0" or "keep-alive" in connection),
    )


def _answer_head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    # A line break in a value would be a header of the peer's choosing.
    lines += [
        f"{name}: {value}".replace("\r", " ").replace("\n", " ") for name, value in headers.items()
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
