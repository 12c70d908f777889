"""A worker process of `tracereel serve`: a door of its own on the shared queue, nothing else.

It is told everything on standard input, says `ready` on standard output, stops in order on SIGTERM
and at once when its standard input closes: its parent is gone then, and with it delivery.
"""

import os
import signal
import socket
import sys
import threading
from pathlib import Path

from tracereel_collector.app import Collector
from tracereel_collector.errors import StartupError
from tracereel_collector.link import READY, Link
from tracereel_collector.serving import doors_beside, serve_until_signal
from tracereel_collector.telemetry import configure_logging, name_thread, share_metrics

EXIT_ORPHANED = 3


def main() -> int:
    """Serve until told to stop; the exit status."""
    # Ctrl-C reaches the whole process group; when to stop is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging()
    link = Link.parse(_first_line())
    threading.Thread(target=_watch_parent, name="watch-parent", daemon=True).start()
    name_thread("door")
    share_metrics(Path(link.metrics_dir), slot=f"worker{link.slot}")
    listening = socket.socket(fileno=link.listen_fd)
    collector = Collector(link.settings, link=link)
    try:
        app = collector.start()
        serve_until_signal(
            app,
            listening,
            beside=doors_beside(link.settings, collector.parts, together=True),
            stop_seconds=link.settings.stop_seconds,
            on_ready=_say_ready,
            signals=(signal.SIGTERM,),
        )
    except StartupError as error:
        sys.stderr.write(f"worker {link.slot}: {error.message}\n")
        return 1
    finally:
        collector.stop()
    return 0


def _say_ready() -> None:
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and (part := os.read(0, 65536)):
        line += part
    return line


def _watch_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(EXIT_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
