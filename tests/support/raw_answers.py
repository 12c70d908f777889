"""Servers that respond with arbitrary bytes, HTTP or not, at any speed."""

import itertools
import socket
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

HOLD = b": hold\n"
"""A response with this ending keeps its connection open."""


@contextmanager
def answering(pieces: Iterable[bytes]) -> Iterator[str]:
    """Serve these bytes to every request until the client disconnects."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            try:
                for piece in pieces:
                    self.request.sendall(piece)
            except OSError:
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def slowly(*pieces: bytes) -> Iterator[bytes]:
    """Yield the bytes one by one, each just before the client's timeout."""
    pause = threading.Event()
    for piece in itertools.chain(pieces, itertools.repeat(b" ")):
        yield piece
        pause.wait(0.05)


class ScriptedServer:
    """Server with scripted responses per connection, one per request; a context manager."""

    def __init__(self, *scripts: bytes | list[bytes]) -> None:
        self.requests: list[str] = []
        self._scripts = scripts
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        for connection in self._open:
            connection.close()

    def _serve(self) -> None:
        for script in self._scripts:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            for answer in [script] if isinstance(script, bytes) else script:
                data = b""
                while b"\r\n\r\n" not in data and (piece := connection.recv(65536)):
                    data += piece
                self.requests.append(data.decode())
                connection.sendall(answer)
            if isinstance(script, bytes) and script.endswith(HOLD):
                self._open.append(connection)
            else:
                connection.close()
