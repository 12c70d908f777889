"""Serves the application over HTTP until a signal says stop."""

import asyncio
import contextlib
import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp

from tracereel_collector.api.parts import Parts
from tracereel_collector.config import Settings
from tracereel_collector.connections import BoundedProtocol
from tracereel_collector.errors import StartupError

PREDECESSOR_SECONDS = 5.0


def listen_together(host: str, port: int, *, sockets: int) -> list[socket.socket]:
    """Several listening sockets on one port, among which the system spreads connections.

    Raises:
        StartupError: the address cannot be had.
    """
    if sockets == 1:
        return [listen(host, port)]
    # Alone first: two collectors that share a port by accident would not notice.
    with listen(host, port) as alone:
        port = alone.getsockname()[1]
    return [listen(host, port, together=True) for _ in range(sockets)]


def _bind(listening: socket.socket, address: tuple[str, int]) -> None:
    """Take an address; one that is taken may be free in a moment.

    Workers whose parent was killed hold its sockets until they notice, which takes one that is just
    starting a second or two: whoever starts the collector again at once must not fail for that.
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
    """A listening socket, so that a taken port is known before anything else starts.

    Raises:
        StartupError: the address cannot be had.
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
    """Another door, in the same event loop."""

    async def start(self) -> None:
        """Begin to serve."""
        ...

    async def stop(self) -> None:
        """End in order."""
        ...


def doors_beside(settings: Settings, parts: Parts, *, together: bool = False) -> list[Beside]:
    """What ends in order beside HTTP, and its other doors; `together` with other processes on a port."""
    streams: list[Beside] = [parts.tail, parts.playbacks]
    if not settings.grpc_port:
        return streams
    from tracereel_collector.api.otlp_grpc import GrpcDoor  # only now: it is slow to import

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


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to us: it would raise them again after its own shutdown."""

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
    """Serve; one of the signals ends it in order, a second one at once.

    `on_stop` runs in a thread before the door closes, for those who still have something to send.
    """
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=BoundedProtocol,
            loop="uvloop",
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
            server.force_exit = server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in signals}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
