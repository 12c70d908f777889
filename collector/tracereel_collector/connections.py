"""Bounds on a connection before there is a request: the size of headers and the time they take."""

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 10.0
_ANSWERS = {
    408: b"HTTP/1.1 408 Request Timeout",
    431: b"HTTP/1.1 431 Request Header Fields Too Large",
}


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which itself waits for headers of any size for any time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._in_headers = True
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """A new connection must say something in time."""
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes before the end of the headers are counted."""
        if self._in_headers:
            self._header_bytes += len(data)
            if self._deadline is None:  # the first bytes after a pause between requests
                self._expect_headers()
        if self.parser is not None:
            super().data_received(data)
        # Checked afterwards: what came with the end of the headers may be a long body.
        if self._in_headers and self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431)

    def on_headers_complete(self) -> None:
        """From here on the body's own limits hold."""
        self._in_headers = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next bytes are the headers of another request."""
        self._in_headers = True
        self._header_bytes = 0
        super().on_message_complete()

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._refuse, 408)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(
                _ANSWERS[status] + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()
