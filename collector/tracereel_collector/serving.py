"""Serves the application over HTTP until a signal says stop."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from tracereel_collector.errors import StartupError

HEADER_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a taken port is known before anything else starts.

    Raises:
        StartupError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise StartupError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="stop what uses the port, or choose another with --port",
        ) from error
    return listening


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to us: it would raise them again after its own shutdown."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve_until_signal(
    app: FastAPI,
    listening: socket.socket,
    *,
    stop_seconds: float,
    on_ready: Callable[[], None],
) -> None:
    """Serve; SIGINT or SIGTERM ends it in order, a second one at once."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http="httptools",
            loop="uvloop",
            lifespan="on",
            h11_max_incomplete_event_size=HEADER_BYTES,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(stop_seconds),
            server_header=False,
            proxy_headers=False,
        )
    )

    def stop(_signal: int, _frame: object) -> None:
        if server.should_exit:
            server.force_exit = True
        server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        on_ready()
        server.run(sockets=[listening])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
