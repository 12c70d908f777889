"""Worker process of `tracereel serve`: receives requests and appends to the shared queue.

It reads its start parameters from standard input and prints `ready` on standard output. SIGTERM stops
it gracefully. It exits at once when its standard input closes: without the parent there is no delivery.
"""

import os
import signal
import socket
import sys
from pathlib import Path

from tracereel_collector.errors import StartupError
from tracereel_collector.processes.http_server import serve_until_signal
from tracereel_collector.runtime.child_process import READY, exit_with_parent
from tracereel_collector.runtime.permissions import make_files_private
from tracereel_collector.startup.worker_bootstrap import Link
from tracereel_collector.telemetry import configure_logging, share_metrics


def main() -> int:
    """Serve until SIGTERM and return the exit status."""
    # Ctrl-C reaches the whole process group, but the parent decides when workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging()
    make_files_private()
    link = Link.parse(_first_line())
    exit_with_parent(os.getppid())
    share_metrics(Path(link.metrics_dir), slot=f"worker{link.slot}")
    try:
        serve_until_signal(
            link.settings,
            socket.socket(fileno=link.listen_fd),
            link=link,
            on_ready=lambda: os.write(1, f"{READY}\n".encode()),
            signals=(signal.SIGTERM,),
        )
    except StartupError as error:
        sys.stderr.write(f"worker {link.slot}: {error.message}\n")
        return 1
    return 0


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and (part := os.read(0, 65536)):
        line += part
    return line


if __name__ == "__main__":
    sys.exit(main())
