"""Limits of a connection: number, duration, header size and pipelining."""

import json
import resource
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEADER_BYTES = 64 * 1024
"""Most header bytes of a request and those pipelined after it.

The same limit applies to trailers and chunk headers.
"""
MAX_HEADERS = 200
"""Most headers of a request; each takes about a hundred bytes of memory."""
MAX_PIPELINED = 16
"""Requests of one connection that may wait for an earlier response."""
REFUSED_BYTES = 4 * 1024 * 1024
REFUSED_SECONDS = 2.0
"""Limits for reading the rest of a body that was sent without a valid key.

It is read so that the client can read the response.
"""
LINGER_SECONDS = 10.0
"""How long a body may continue after its response was sent."""
WRITE_SECONDS = 30.0
MIN_READ_RATE = 1024
"""Bytes per second that a client must read of a response, checked every `WRITE_SECONDS`."""
IDLE_SECONDS = 0.25
"""Idle time after which a connection may be closed for a new one."""
OTHER_FILES = 512
"""Files open besides connections: the queue, the store's clients, the engine's pipes."""
_ANSWERS = {
    408: b"HTTP/1.1 408 Request Timeout",
    431: b"HTTP/1.1 431 Request Header Fields Too Large",
    503: b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a server; `on_refused` receives the reason whenever a connection is ended."""

    max_connections: int = 1000
    header_seconds: float = 10.0
    linger_seconds: float = LINGER_SECONDS
    refused_seconds: float = REFUSED_SECONDS
    write_seconds: float = WRITE_SECONDS
    on_refused: Callable[[str], None] = lambda _reason: None


def allow_open_files(connections: int) -> None:
    """Raise the limit of open files for this many connections, if the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Lingering:
    """Transport whose `close` waits for the rest of the request body.

    Closing while bytes still arrive resets the connection and discards the response. A client that
    sends all of a large body before it reads would never see why it was refused.
    """

    def __init__(self, transport: Transport, protocol: "BoundedProtocol") -> None:
        self._transport = transport
        self._protocol = protocol
        self.write = transport.write
        self.is_closing = transport.is_closing

    def close(self) -> None:
        if not self._transport.is_closing() and not self._protocol.linger():
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_NOT_HTTP = json.dumps(
    {
        "error": {
            "code": "bad_request",
            "message": "this is not a valid HTTP/1.1 request",
            "hint": "in an address, characters beyond ASCII and spaces are written as %C3%B1, %20",
        }
    }
).encode()


class _OverLimitError(Exception):
    """Stops the parser in the middle of its input."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on time, connections, headers, trailers and pipelining."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # uvicorn creates protocols with only the application, so the limits are read from it.
        state = getattr(self.config.app, "state", None)
        self._limits: ConnectionLimits = getattr(state, "connection_limits", ConnectionLimits())
        self._received = 0
        """Bytes since the parser last made progress: unfinished headers, trailers or a chunk header."""
        self._got_on = False
        self._header_bytes = 0
        self._in_headers = True
        self._over: tuple[int, str] | None = None
        self._read_on = 0
        self._deadline: TimerHandle | None = None
        self._unread: TimerHandle | None = None
        self._ending = False
        self.idle_since = self.loop.time()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start the header timeout; with too many connections, close an idle one."""
        super().connection_made(transport)
        self.transport = _Lingering(transport, self)  # type: ignore[assignment]
        if len(self.connections) > self._limits.max_connections and not self._end_an_idle_one():
            self._refuse(503, "too_many")
            return
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data and count bytes that bring no progress."""
        if self.transport.is_closing():
            return
        if self._in_headers and self._deadline is None:  # first bytes after a pause
            self._expect_headers()
        self._got_on = False
        if self.parser is not None:
            super().data_received(data)
        # Counted after parsing: data after the end of the headers may be a long body.
        self._received = 0 if self._got_on else self._received + len(data)
        if not self.transport.is_closing() and self._received > MAX_HEADER_BYTES:
            self._refuse(431, "header_size" if self._in_headers else "trailers")

    def on_message_begin(self) -> None:
        """Count the headers of pipelined requests until they are answered."""
        self._header_bytes = sum(_size_of(cycle.scope["headers"]) for cycle, _ in self.pipeline)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the URL."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop trailers, which are not used."""
        if not self._in_headers:
            return
        self._count_header(len(name) + len(value))
        if len(self.headers) >= MAX_HEADERS:
            self._stop_parsing(431, "header_count")
        super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Note progress: a chunk begins."""
        self._got_on = True

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body; after a refusal, end the connection at a limit."""
        self._got_on = True
        super().on_body(body)
        if self.cycle.response_complete and not self._is_admitted:
            self._read_on += len(body)
            if self._read_on > REFUSED_BYTES:
                self.end("refused_body")

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            self._stop_parsing(431, "header_size")

    def _stop_parsing(self, status: int, reason: str) -> None:
        self._over = (status, reason)
        raise _OverLimitError

    def send_400_response(self, msg: str) -> None:
        """Send a JSON error for invalid HTTP, or the refusal for an exceeded limit."""
        del msg
        if self._over is not None:
            self._refuse(*self._over)
            return
        lines = [
            *(b"%b: %b" % pair for pair in self.server_state.default_headers),
            b"content-type: application/json",
            b"content-length: %d" % len(_NOT_HTTP),
            b"connection: close",
        ]
        head = b"\r\n".join([b"HTTP/1.1 400 Bad Request", *lines])
        self.transport.write(head + b"\r\n\r\n" + _NOT_HTTP)
        self.transport.close()

    def on_headers_complete(self) -> None:
        """Stop the header timeout; from here on the limits of bodies apply."""
        self._in_headers = False
        self._got_on = True
        self._read_on = 0
        self._stop_waiting()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop_parsing(503, "pipelined")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the headers of the next request."""
        self._in_headers = True
        self._got_on = True
        self._stop_waiting()
        super().on_message_complete()
        if self._ending:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Limit the time for the rest of the body of an answered request."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        if self.cycle.response_complete:
            self.cycle.body = bytearray()  # free the unread body now, not at the next request
        if self.transport.is_closing():
            return
        if self.pipeline:
            self.flow.pause_reading()
        elif not self._in_headers:
            self._expect_end()

    @property
    def _is_admitted(self) -> bool:
        """Whether the current request passed the access check of its route."""
        return "caller" in self.cycle.scope["state"]

    def linger(self) -> bool:
        """Half-close and wait for the rest of a body; return False if none is expected."""
        answered = self.cycle is not None and self.cycle.response_complete
        if self._in_headers or not answered or self._ending:
            return False
        self._ending = True
        self.transport.write_eof()
        self._expect_end()
        return True

    def pause_writing(self) -> None:
        """Start to check that the client still reads."""
        super().pause_writing()
        self._watch_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop the check: the client has caught up."""
        self._stop_watching()
        super().resume_writing()

    def _watch_reading(self, unread: int) -> None:
        self._unread = self.loop.call_later(
            self._limits.write_seconds, self._look_at_reading, unread
        )

    def _look_at_reading(self, before: int) -> None:
        now = self.transport.get_write_buffer_size()
        if before - now < MIN_READ_RATE * self._limits.write_seconds:
            self.end("reads_nothing")
        else:
            self._watch_reading(now)

    def _end_an_idle_one(self) -> bool:
        """Close the connection that was idle longest; return False if there is none."""
        # Runs only with too many connections, so a scan of all is acceptable.
        latest = self.loop.time() - IDLE_SECONDS
        idle = [
            each
            for each in self.connections
            if isinstance(each, BoundedProtocol)
            and (each.is_refused or (each.is_idle and each.idle_since < latest))
        ]
        if not idle:
            return False
        longest = min(idle, key=lambda each: each.idle_since)
        self.connections.discard(longest)
        longest.end("gave_way")
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, or only the rest of a refused one."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return self._in_headers
        return cycle.response_complete and (self._in_headers or not self._is_admitted)

    @property
    def _is_answering(self) -> bool:
        """Whether bytes sent now would become part of an earlier response."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return False
        if cycle.response_complete:
            return not self._in_headers
        return self._in_headers or cycle.response_started or bool(self.pipeline)

    @property
    def is_refused(self) -> bool:
        """Whether the request was answered while its body still arrives."""
        return not self._in_headers and self.cycle is not None and self.cycle.response_complete

    def _expect_end(self) -> None:
        if self._deadline is None:
            limits = self._limits
            seconds = limits.linger_seconds if self._is_admitted else limits.refused_seconds
            self._deadline = self.loop.call_later(seconds, self.end, "body_lingers")

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(
            self._limits.header_seconds, self._refuse, 408, "header_time"
        )

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _refuse(self, status: int, reason: str) -> None:
        if self._is_answering:
            self.end(reason)  # a second response would be read as part of the first
            return
        self._stop_waiting()
        if not self.transport.is_closing():
            self._limits.on_refused(reason)
            self.transport.write(
                _ANSWERS[status] + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self._ending = True  # the rest of the body is not read
            self.transport.close()

    def end(self, reason: str) -> None:
        """Close the connection at once and count the reason."""
        self._stop_waiting()
        self._stop_watching()
        if not self.transport.is_closing() or reason == "reads_nothing":
            self._limits.on_refused(reason)
        self.transport.abort()


def _size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
