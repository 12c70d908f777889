"""Listening sockets, and the collector that serves one until a signal stops it."""

import asyncio
import contextlib
import errno
import itertools
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from tracereel_collector.app import Collector
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.http.connections import BoundedProtocol
from tracereel_collector.http.otlp_grpc import GrpcServer
from tracereel_collector.runtime.allocator import return_large_blocks
from tracereel_collector.startup.worker_bootstrap import Link
from tracereel_collector.telemetry import name_thread

PREDECESSOR_SECONDS = 5.0


def listen_together(host: str, port: int, *, sockets: int) -> list[socket.socket]:
    """Open listening sockets that share a port; the kernel distributes connections."""
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


class _CollectorServer(uvicorn.Server):
    """uvicorn server that starts and stops OTLP over gRPC, and ends streams at shutdown."""

    def __init__(
        self,
        settings: Settings,
        collector: Collector,
        *,
        together: bool,
        on_ready: Callable[[], object],
    ) -> None:
        config = uvicorn.Config(
            collector.start(),
            log_config=None,
            access_log=False,
            http=BoundedProtocol,
            loop="uvloop",
            ws="none",
            lifespan="off",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(settings.stop_seconds),
            server_header=False,
            proxy_headers=False,
        )
        super().__init__(config)
        self._parts = collector.parts
        self._grpc: GrpcServer | None = None
        if settings.grpc_port:
            self._grpc = GrpcServer(collector.parts, settings, together=together)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._grpc is not None:
            await self._grpc.start()
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._parts.tail.end_all()
        self._parts.playbacks.stopping.set()
        grpc = [] if self._grpc is None else [self._grpc.stop()]
        await asyncio.gather(super().shutdown(sockets), *grpc)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # uvicorn would raise signals again after shutdown


def serve_until_signal(
    settings: Settings,
    listening: socket.socket,
    *,
    link: Link | None = None,
    on_ready: Callable[[], object],
    on_stop: Callable[[], None] = lambda: None,
    signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
) -> None:
    """Run a collector until a signal; the first stops gracefully, a second one at once.

    With a link it is a worker. `on_stop` runs in a thread before the server closes, for clients that
    still have data to send.
    """
    name_thread("door")
    return_large_blocks()
    collector = Collector(settings, link=link)
    try:
        server = _CollectorServer(settings, collector, together=link is not None, on_ready=on_ready)

        def stop_gracefully() -> None:
            on_stop()
            server.should_exit = True

        stopping = threading.Thread(target=stop_gracefully, name="stopping", daemon=True)
        received = itertools.count()

        def stop(_signal: int, _frame: object) -> None:
            # Not `stopping.ident`: a second signal may come while the thread starts.
            if next(received) == 0:
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
    finally:
        collector.stop()
