"""HTTP server for Prometheus metrics, in a daemon thread."""

from typing import Any, Final, Self

from prometheus_client import CollectorRegistry, start_http_server

from tracereel._runtime import guard
from tracereel.metrics import exposed_registry

DEFAULT_PORT: Final = 9090


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

    A port in use is not an error: another worker of the program may already serve it. Scrapers that
    accept OpenMetrics get exemplars with trace ids.

    Args:
        registry: registry to serve; default is that of `configure`, else the global one.
    """
    try:
        served = registry if registry is not None else exposed_registry()
        server, thread = start_http_server(port, addr=addr, registry=served)
    except (OSError, OverflowError) as error:
        guard.log.warning("tracereel: no metrics on %s:%s: %s", addr, port, error)
        return None
    except Exception as error:  # noqa: BLE001
        guard.report("metrics_server", error)
        return None
    return MetricsServer(server, thread)
