"""Serves the application over HTTP until a signal says stop."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from tracereel_collector.connections import BoundedProtocol
from tracereel_collector.errors import StartupError


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
    on_stop: Callable[[], None],
) -> None:
    """Serve; SIGINT or SIGTERM ends it in order, a second one at once.

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
        )
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

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        on_ready()
        server.run(sockets=[listening])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
