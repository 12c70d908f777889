"""HTTP server that runs until a signal stops it."""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.http.connections import BoundedProtocol
from tracereel_collector.http.dependencies import Parts
from tracereel_collector.http.otlp_grpc import GrpcDoor
from tracereel_collector.runtime.allocator import return_large_blocks

PREDECESSOR_SECONDS = 5.0


def listen_together(host: str, port: int, *, sockets: int) -> list[socket.socket]:
    """Open listening sockets that share a port; the kernel distributes connections.

    Raises:
        StartupError: the address is not available.
    """
    if sockets == 1:
        return [listen(host, port)]
    # Bind exclusively first: SO_REUSEPORT would hide another collector on the same port.
    with listen(host, port) as alone:
        port = alone.getsockname()[1]
    return [listen(host, port, together=True) for _ in range(sockets)]


def _bind(listening: socket.socket, address: tuple[str, int]) -> None:
    """Bind to an address; retry for a few seconds if it is in use.

    Workers of a killed parent hold its sockets for a second or two. An immediate restart of the
    collector must not fail because of that.
    """
    deadline = time.monotonic() + PREDECESSOR_SECONDS
    while True:
        try:
            listening.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def listen(
    host: str, port: int, *, option: str = "--port", together: bool = False
) -> socket.socket:
    """Open a listening socket, so that an occupied port fails early.

    Raises:
        StartupError: the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if together:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        _bind(listening, (host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise StartupError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint=_advice(error, option)
        ) from error
    return listening


def _advice(error: OSError, option: str) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "name an address of this machine with --host"
    if error.errno == errno.EACCES:
        return f"choose a port above 1023 with {option}"
    none = ", or none with off" if option == "--grpc-port" else ""
    return f"stop what uses the port, or choose another with {option}{none}"


class Beside(Protocol):
    """Service that runs in the HTTP server's event loop."""

    async def start(self) -> None:
        """Start serving."""
        ...

    async def stop(self) -> None:
        """Stop gracefully."""
        ...


def doors_beside(settings: Settings, parts: Parts, *, together: bool = False) -> list[Beside]:
    """Return the services that start and stop with HTTP.

    Args:
        settings: Of the collector.
        parts: Components that the services use.
        together: Whether other processes listen on the same gRPC port.
    """
    streams: list[Beside] = [parts.tail, parts.playbacks]
    if not settings.grpc_port:
        return streams
    return [
        *streams,
        GrpcDoor(
            parts,
            host=settings.host,
            port=settings.grpc_port,
            stop_seconds=settings.stop_seconds,
            together=together,
        ),
    ]


class _UvicornServer(uvicorn.Server):
    """uvicorn server without signal handlers: uvicorn would raise signals again after shutdown."""

    def __init__(
        self, config: uvicorn.Config, *, beside: Sequence[Beside], on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._beside = beside
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for door in self._beside:
            await door.start()
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.gather(super().shutdown(sockets), *(door.stop() for door in self._beside))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve_until_signal(
    app: ASGIApp,
    listening: socket.socket,
    *,
    stop_seconds: float,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None] = lambda: None,
    signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
    beside: Sequence[Beside] = (),
) -> None:
    """Serve until a signal; the first stops gracefully, a second one at once.

    `on_stop` runs in a thread before the server closes, for clients that still have data to send.
    """
    return_large_blocks()
    server = _UvicornServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=BoundedProtocol,
            loop="uvloop",
            ws="none",
            lifespan="on",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(stop_seconds),
            server_header=False,
            proxy_headers=False,
        ),
        beside=beside,
        on_ready=on_ready,
    )

    def close_the_door() -> None:
        on_stop()
        server.should_exit = True

    stopping = threading.Thread(target=close_the_door, name="stopping", daemon=True)

    def stop(_signal: int, _frame: object) -> None:
        if stopping.ident is None:
            stopping.start()
        else:
            # Every request that is cut would be logged with a traceback.
            logging.getLogger("uvicorn.error").disabled = True
            server.force_exit = server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in signals}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
