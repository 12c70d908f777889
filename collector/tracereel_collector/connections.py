"""Bounds on a connection outside of a request: how many, how slow, how large its headers are."""

import json
import resource
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
LINGER_SECONDS = 10.0
"""How long a body may go on coming after its request was answered."""
WRITE_SECONDS = 30.0
MIN_READ_RATE = 1024
"""Bytes per second that a client must read of its answer, looked at every `WRITE_SECONDS`."""
IDLE_SECONDS = 0.25
"""A connection without a request for less than this does not give way: its request may be here."""
OTHER_FILES = 512
"""What is open besides connections: the queue, the store's clients, the engine's pipes."""
_ANSWERS = {
    408: b"HTTP/1.1 408 Request Timeout",
    431: b"HTTP/1.1 431 Request Header Fields Too Large",
    503: b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What a server allows; `on_refused` is told the reason whenever a connection is ended."""

    max_connections: int = 1000
    header_seconds: float = 10.0
    linger_seconds: float = LINGER_SECONDS
    write_seconds: float = WRITE_SECONDS
    on_refused: Callable[[str], None] = lambda _reason: None


def allow_open_files(connections: int) -> None:
    """Let this process have so many connections open, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Lingering:
    """A transport whose `close` lets the other side finish its body first.

    Closing while bytes are still coming in resets the connection, and the answer that was written
    is lost with it: a client that sends all of a large body before it listens would never learn
    that it was refused.
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


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which itself waits for anybody for any time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The app brings its limits along: uvicorn makes protocols and passes nothing else.
        state = getattr(self.config.app, "state", None)
        self._limits: ConnectionLimits = getattr(state, "connection_limits", ConnectionLimits())
        self._header_bytes = 0
        self._in_headers = True
        self._deadline: TimerHandle | None = None
        self._unread: TimerHandle | None = None
        self._ending = False
        self.idle_since = self.loop.time()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """A new connection must speak in time; when there are too many, an idle one goes."""
        super().connection_made(transport)
        self.transport = _Lingering(transport, self)  # type: ignore[assignment]
        if len(self.connections) > self._limits.max_connections and not self._end_an_idle_one():
            self._refuse(503, "too_many")
            return
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes before the end of the headers are counted."""
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._deadline is None:  # the first bytes after a pause between requests
                self._expect_headers()
        if self.parser is not None:
            super().data_received(data)
        # Checked afterwards: what came with the end of the headers may be a long body.
        if self._in_headers and self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, "header_size")

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered like every other mistake; uvicorn's words help nobody."""
        del msg
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
        """From here on the body's own limits hold."""
        self._in_headers = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next bytes are the headers of another request."""
        self._in_headers = True
        self._header_bytes = 0
        self._stop_waiting()
        super().on_message_complete()
        if self._ending:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Nobody reads what still comes of an answered request: it must end soon."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        if self.transport.is_closing():
            return
        if not self._in_headers and not self.pipeline:
            self._expect_end()

    def linger(self) -> bool:
        """Say that nothing more will be sent, and wait for the rest of a body; False if none comes."""
        answered = self.cycle is not None and self.cycle.response_complete
        if self._in_headers or not answered or self._ending:
            return False
        self._ending = True
        self.transport.write_eof()
        self._expect_end()
        return True

    def pause_writing(self) -> None:
        """The client reads more slowly than we write: fine, as long as it reads."""
        super().pause_writing()
        self._watch_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """It has caught up."""
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
        """Close the connection that has waited longest without a request; False if there is none."""
        # Sets have no order, and this runs only when there are too many: looking at all is right.
        latest = self.loop.time() - IDLE_SECONDS
        idle = [
            each
            for each in self.connections
            if isinstance(each, BoundedProtocol) and each.is_idle and each.idle_since < latest
        ]
        if not idle:
            return False
        longest = min(idle, key=lambda each: each.idle_since)
        self.connections.discard(longest)
        longest.end("gave_way")
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self._in_headers and (self.cycle is None or self.cycle.response_complete)

    def _expect_end(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(
                self._limits.linger_seconds, self.end, "body_lingers"
            )

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
        self._stop_waiting()
        if not self.transport.is_closing():
            self._limits.on_refused(reason)
            self.transport.write(
                _ANSWERS[status] + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()

    def end(self, reason: str) -> None:
        """Close at once, and count why."""
        self._stop_waiting()
        self._stop_watching()
        if not self.transport.is_closing() or reason == "reads_nothing":
            self._limits.on_refused(reason)
        self.transport.abort()
