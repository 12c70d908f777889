"""Serves the Prometheus series over HTTP, from a thread that ends with the program."""

from types import TracebackType
from typing import Any, Final, Self

from prometheus_client import CollectorRegistry, start_http_server

from tracereel import _guard
from tracereel.metrics import exposed_registry

DEFAULT_PORT: Final = 9090


class MetricsServer:
    """A running server; `close` ends it, and so does leaving it as a context."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.port: int = server.server_port
        """The port in use: that asked for, or the one found for port 0."""

    def close(self) -> None:
        """Stop serving; may be called again."""
        with _guard.Guard("metrics_server"):
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def start_metrics_server(
    port: int = DEFAULT_PORT,
    *,
    addr: str = "127.0.0.1",
    registry: CollectorRegistry | None = None,
) -> MetricsServer | None:
    """Serve `/metrics` in a daemon thread; null, and a warning in the log, where that cannot be.

    A taken port is no reason for a program to stop: its other workers may be serving there already.
    A scraper that accepts OpenMetrics gets exemplars with trace ids.

    Args:
        registry: what to serve; that of `configure` if not given, else the default one.
    """
    try:
        served = registry if registry is not None else exposed_registry()
        server, thread = start_http_server(port, addr=addr, registry=served)
    except (OSError, OverflowError) as error:
        _guard.log.warning("tracereel: no metrics on %s:%s: %s", addr, port, error)
        return None
    except Exception as error:  # noqa: BLE001
        _guard.report("metrics_server", error)
        return None
    return MetricsServer(server, thread)
