"""`tracereel serve`: lock the data directory, start the collector and print its address."""

import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace

from tracereel_collector.auth import KeyScope
from tracereel_collector.auth.browsers import parse_public_url
from tracereel_collector.auth.keyring import read_static_keys
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.processes.http_server import listen, listen_together, serve_until_signal
from tracereel_collector.processes.supervise import serve_in_workers
from tracereel_collector.runtime.child_process import end_process
from tracereel_collector.runtime.permissions import make_files_private
from tracereel_collector.startup.data_dir import held, start_engine
from tracereel_collector.telemetry import configure_logging

DEMO_STOP_SECONDS = 5.0
MOST_BY_DEFAULT = 4


def serve(settings: Settings, *, demo: bool = False) -> int:
    """Run a collector until a signal and return the exit status."""
    configure_logging()
    make_files_private()
    # Until the server installs its handlers, SIGTERM stops the start like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = replace(settings, workers=settings.workers or default_workers())
    public = parse_public_url(settings.public_url)
    demonstration = _Demo(settings)
    with held(settings.data_dir):
        sockets = listen_together(settings.host, settings.port, sockets=settings.workers)
        url = _url(sockets[0])
        if settings.grpc_port:
            # gRPC binds later; report an occupied port now.
            listen(settings.host, settings.grpc_port, option="--grpc-port").close()

        def ready() -> None:
            page = f"page at {public.origin}, " if public.origin else ""
            grpc = f"OTLP/gRPC on port {settings.grpc_port}, " if settings.grpc_port else ""
            _say(
                f"tracereel collector at {url} ({page}{grpc}data in {settings.data_dir});"
                " Ctrl-C stops it"
            )
            if demo:
                demonstration.start(url)

        try:
            _say("starting the store …")
            if settings.workers == 1:
                serve_until_signal(settings, sockets[0], on_ready=ready, on_stop=demonstration.stop)
            else:
                serve_in_workers(settings, sockets, on_ready=ready, on_stop=demonstration.stop)
        except KeyboardInterrupt:
            pass  # stopped by a signal during the start
        except OSError as error:
            raise StartupError(f"cannot use {settings.data_dir}: {error}") from error
        finally:
            demonstration.stop()
            for listening in sockets:
                listening.close()
    _say("stopped")
    return 0


def default_workers() -> int:
    """Return half of the cores, from 1 to 4; the store uses the rest."""
    return max(1, min(MOST_BY_DEFAULT, len(os.sched_getaffinity(0)) // 2))


def run_engine_alone(settings: Settings) -> int:
    """Run the embedded store without a collector and return the exit status."""
    configure_logging()
    make_files_private()
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
    """Demo pipeline in a child process that ends when its standard input closes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> None:
        """Start the demo, which sends to the collector at a URL."""
        environ = {
            **os.environ,
            "TRACEREEL_SPOOL_DIR": str(self._settings.data_dir / "demo-spool"),
        }
        for key, identity in read_static_keys(self._settings.api_keys).items():
            if KeyScope.WRITE in identity.scopes:
                environ["TRACEREEL_API_KEY"] = key
                break
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
        """Stop the demo if it runs; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process, grace=DEMO_STOP_SECONDS)
