"""An HTTP answer with one deadline for all of it: a server that never ends must not keep us reading."""

import http.client
import io
import socket
import time
from typing import Any


class TimedResponse(http.client.HTTPResponse):
    """An answer whose status, headers and body have to come within the timeout of the socket.

    The timeout of a socket alone is for each read, and the standard library reads lines, headers and
    `100 Continue` for as long as there are any.
    """

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock))


class _Timed(io.RawIOBase):
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        # The file, not the socket, keeps the connection open until the answer has been read.
        self._file = sock.makefile("rb", buffering=0)
        self._timeout = self._set = sock.gettimeout()
        self._deadline = time.monotonic() + (self._timeout or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._timeout is not None and self._set is not None:
            left = self._deadline - time.monotonic()
            if left <= 0.0:
                raise TimeoutError("the answer does not end")
            if self._set - left > self._timeout / 50:
                # Not for each read: it is a system call, and gives the interpreter's lock away.
                self._socket.settimeout(left)
                self._set = left
        return self._file.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            try:
                if self._set != self._timeout:
                    self._socket.settimeout(self._timeout)
            except OSError:  # the connection is closed already
                pass
            self._file.close()
        super().close()
