"""`tracereel serve`: takes the data directory, brings the collector up, tells where it is."""

import signal
import socket
import subprocess
import sys
import threading

from tracereel_collector.app import Collector
from tracereel_collector.config import Settings
from tracereel_collector.engine.lock import DirectoryLock
from tracereel_collector.serving import listen, serve_until_signal
from tracereel_collector.telemetry import configure_logging


def serve(settings: Settings, *, demo: bool = False) -> int:
    """Run a collector until it is told to stop; the exit status.

    Raises:
        StartupError: the directory or the port is taken, or a setting cannot work.
    """
    configure_logging()
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    collector = Collector(settings)
    with DirectoryLock(settings.data_dir / "serve.lock"):
        listening = listen(settings.host, settings.port)
        url = _url(listening)
        demonstration: subprocess.Popen[bytes] | None = None

        def ready() -> None:
            nonlocal demonstration
            _say(f"tracereel collector at {url} (data in {settings.data_dir})")
            if demo:
                demonstration = _start_demo(url, settings)

        try:
            _say("starting the store …")
            app = collector.start()
            serve_until_signal(
                app, listening, stop_seconds=settings.stop_seconds, on_ready=ready
            )
        finally:
            if demonstration is not None:
                _end(demonstration)
            collector.stop()
            listening.close()
    _say("stopped")
    return 0
