"""`tracereel serve`: takes the data directory, brings the collector up, tells where it is."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracereel_collector.app import Collector, start_engine
from tracereel_collector.config import Settings
from tracereel_collector.engine.lock import StoreInUseError, StoreLock
from tracereel_collector.errors import StartupError
from tracereel_collector.serving import listen, serve_until_signal
from tracereel_collector.telemetry import configure_logging

DEMO_STOP_SECONDS = 5.0


def serve(settings: Settings, *, demo: bool = False) -> int:
    """Run a collector until it is told to stop; the exit status.

    Raises:
        StartupError: the directory or the port is taken, or a setting cannot work.
    """
    configure_logging()
    collector = Collector(settings)
    with _held(settings.data_dir):
        listening = listen(settings.host, settings.port)
        url = _url(listening)
        demonstration: subprocess.Popen[bytes] | None = None

        def ready() -> None:
            nonlocal demonstration
            _say(f"tracereel collector at {url} (data in {settings.data_dir}); Ctrl-C stops it")
            if demo:
                demonstration = _start_demo(url, settings)

        try:
            _say("starting the store …")
            app = collector.start()
            serve_until_signal(app, listening, stop_seconds=settings.stop_seconds, on_ready=ready)
        finally:
            if demonstration is not None:
                _end(demonstration)
            collector.stop()
            listening.close()
    _say("stopped")
    return 0


def run_engine_alone(settings: Settings) -> int:
    """Run the embedded store without a collector, for maintenance; the exit status."""
    configure_logging()
    with _held(settings.data_dir):
        engine = start_engine(settings)
        try:
            _say(
                f"ClickHouse's HTTP interface at http://{engine.host}:{engine.port}, user tracereel,"
                f" password in {settings.data_dir / 'store' / 'engine.secret'}; Ctrl-C stops it"
            )
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
        finally:
            engine.stop()
    _say("stopped")
    return 0


@contextmanager
def _held(data_dir: Path) -> Iterator[None]:
    """The data directory for us alone; a second collector is told who has it."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        lock = StoreLock.acquire(data_dir / "serve.lock", wait_seconds=0, owner="another collector")
    except StoreInUseError as error:
        raise StartupError(str(error)) from error
    try:
        yield
    finally:
        lock.release()


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _start_demo(url: str, settings: Settings) -> "subprocess.Popen[bytes]":
    """The demo in a process of its own; it ends by itself when its standard input closes."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter and command
        [
            *(sys.executable, "-m", "tracereel", "demo", "--forever", "--endpoint", url),
            "--until-stdin-closes",
        ],
        stdin=subprocess.PIPE,
        env={**os.environ, "TRACEREEL_SPOOL_DIR": str(settings.data_dir / "demo-spool")},
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(DEMO_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
