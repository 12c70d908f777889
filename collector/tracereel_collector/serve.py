"""`tracereel serve`: takes the data directory, brings the collector up, tells where it is."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

from tracereel_collector.app import Collector
from tracereel_collector.config import Settings
from tracereel_collector.data_dir import held, start_engine
from tracereel_collector.errors import StartupError
from tracereel_collector.serving import (
    doors_beside,
    listen,
    listen_together,
    serve_until_signal,
)
from tracereel_collector.supervise import serve_in_workers
from tracereel_collector.telemetry import configure_logging, name_thread

DEMO_STOP_SECONDS = 5.0
MOST_BY_DEFAULT = 4


def serve(settings: Settings, *, demo: bool = False) -> int:
    """Run a collector until it is told to stop; the exit status.

    Raises:
        StartupError: the directory or the port is taken, or a setting cannot work.
    """
    configure_logging()
    # Until the server has handlers of its own, SIGTERM ends a start as Ctrl-C does: in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workers = settings.workers or default_workers()
    demonstration = _Demo(settings)
    with held(settings.data_dir):
        sockets = listen_together(settings.host, settings.port, sockets=workers)
        url = _url(sockets[0])
        if settings.grpc_port:
            # gRPC binds for itself, later: a port that is taken should be known now.
            listen(settings.host, settings.grpc_port, option="--grpc-port").close()

        def ready() -> None:
            grpc = f"OTLP/gRPC on port {settings.grpc_port}, " if settings.grpc_port else ""
            _say(
                f"tracereel collector at {url} ({grpc}data in {settings.data_dir}); Ctrl-C stops it"
            )
            if demo:
                demonstration.start(url)

        serve_them = _serve_here if workers == 1 else serve_in_workers
        try:
            _say("starting the store …")
            serve_them(settings, sockets, on_ready=ready, on_stop=demonstration.stop)
        except KeyboardInterrupt:
            pass  # told to stop while starting
        except OSError as error:
            raise StartupError(f"cannot use {settings.data_dir}: {error}") from error
        finally:
            demonstration.stop()
            for listening in sockets:
                listening.close()
    _say("stopped")
    return 0


def default_workers() -> int:
    """One process does for small machines; from there on, half of the cores, the store has the rest."""
    return max(1, min(MOST_BY_DEFAULT, len(os.sched_getaffinity(0)) // 2))


def _serve_here(
    settings: Settings,
    sockets: list[socket.socket],
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
) -> None:
    """Everything but the engine in this process."""
    name_thread("door")
    collector = Collector(settings)
    try:
        app = collector.start()
        serve_until_signal(
            app,
            sockets[0],
            beside=doors_beside(settings, collector.parts),
            stop_seconds=settings.stop_seconds,
            on_ready=on_ready,
            on_stop=on_stop,
        )
    finally:
        collector.stop()


def run_engine_alone(settings: Settings) -> int:
    """Run the embedded store without a collector, for maintenance; the exit status."""
    configure_logging()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with held(settings.data_dir):
        engine = start_engine(settings)
        try:
            _say(
                f"ClickHouse's HTTP interface at http://{engine.host}:{engine.port}, user tracereel,"
                f" password in {settings.data_dir / 'store' / 'engine.secret'}; Ctrl-C stops it"
            )
            stop.wait()
        finally:
            engine.stop()
    _say("stopped")
    return 0


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class _Demo:
    """The demo pipeline in a process of its own; it ends by itself when its standard input closes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> None:
        """Let it emit into the collector at a URL."""
        environ = {
            **os.environ,
            "TRACEREEL_SPOOL_DIR": str(self._settings.data_dir / "demo-spool"),
        }
        if self._settings.api_keys:
            first = self._settings.api_keys.split(",")[0]
            environ["TRACEREEL_API_KEY"] = first.partition(":")[2].strip()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            [
                *(sys.executable, "-m", "tracereel", "demo", "--forever", "--endpoint", url),
                "--until-stdin-closes",
            ],
            stdin=subprocess.PIPE,
            env=environ,
        )
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        status = process.wait()
        if self._process is process:
            _say(f"the demo has ended (exit status {status}); the collector goes on")

    def stop(self) -> None:
        """End it, if it runs; safe to call twice."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(DEMO_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
