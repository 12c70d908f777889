"""HTTP server for Prometheus metrics, in a daemon thread."""

import errno
import logging
from typing import Any, Final, Self

from prometheus_client import CollectorRegistry, start_http_server

from tracereel._runtime import guard
from tracereel._telemetry.event_log import has_handlers, write_to_stderr
from tracereel.metrics import exposed_registry

DEFAULT_PORT: Final = 9090
NEXT_PORTS: Final = range(9464, 9474)
"""Ports to try if the default one is taken; Prometheus itself listens on 9090."""


class MetricsServer:
    """Running metrics server; closed by `close` or at the end of a `with` block."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.port: int = server.server_port
        """Port in use; the assigned port if port 0 was requested."""

    def close(self) -> None:
        """Stop serving; safe to call again."""
        with guard.Guard("metrics_server"):
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        self.close()


def start_metrics_server(
    port: int = DEFAULT_PORT,
    *,
    addr: str = "127.0.0.1",
    registry: CollectorRegistry | None = None,
) -> MetricsServer | None:
    """Serve `/metrics` in a daemon thread; on failure log a warning and return `None`.

    If 9090 is taken, the first free port from 9464 to 9473 is used and named in a warning. Another
    port in use is not an error: another worker of the program may already serve it. Scrapers that
    accept OpenMetrics get exemplars with trace ids.

    Args:
        registry: registry to serve; default is that of `configure`, else the global one.
    """
    try:
        served = registry if registry is not None else exposed_registry()
        found = _listen(port, addr, served)
    except (OSError, OverflowError) as error:
        guard.log.warning("tracereel: no metrics on %s:%s: %s", addr, port, error)
        return None
    except Exception as error:  # noqa: BLE001
        guard.report("metrics_server", error)
        return None
    if port not in (0, found.port):
        _warn(f"tracereel: port {port} is taken; metrics are at http://{addr}:{found.port}/metrics")
    return found


def _listen(port: int, addr: str, registry: CollectorRegistry) -> MetricsServer:
    """Start the server, on another port if the default one is taken."""
    others = iter(NEXT_PORTS if port == DEFAULT_PORT else ())
    while True:
        try:
            return MetricsServer(*start_http_server(port, addr=addr, registry=registry))
        except OSError as error:
            following = next(others, None)
            if error.errno != errno.EADDRINUSE or following is None:
                raise
            port = following


def _warn(message: str) -> None:
    """Log a warning, or write it to standard error if the program has no logging."""
    if has_handlers(guard.log):
        guard.log_message(logging.WARNING, "%s", message)
    else:
        write_to_stderr(message)
