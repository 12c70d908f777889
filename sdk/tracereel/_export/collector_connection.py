"""HTTP connection to the configured collector."""

import os
import ssl
from importlib.util import find_spec
from typing import Final

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection, HttpResponse, is_loopback
from tracereel._export.http_client import TIMEOUT as TIMEOUT
from tracereel.config import Config

TROUBLE: Final = HTTP_ERRORS
CA_FILE: Final = "OTEL_EXPORTER_OTLP_CERTIFICATE"
CLIENT_CERTIFICATE: Final = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
CLIENT_KEY: Final = "OTEL_EXPORTER_OTLP_CLIENT_KEY"


class CollectorConnection(HttpConnection):
    """Kept-alive connection with the API key, for one thread outside of gevent."""

    def __init__(self, config: Config, *, timeout: float = TIMEOUT, path: str = "") -> None:
        headers = {"user-agent": "tracereel-sdk"}
        if config.api_key is not None:
            headers["x-api-key"] = config.api_key
        super().__init__(
            config.endpoint.rstrip("/") + path,
            headers=headers,
            timeout=timeout,
            tls=collector_tls,
            native_sockets=True,
        )
        self.compression = config.compression
        """How to compress request bodies for this destination: `zstd`, `gzip` or `none`."""
        if config.compression == "auto":
            best = "zstd" if find_spec("zstandard") else "gzip"
            self.compression = "none" if is_loopback(self.host) else best

    def post(
        self, path: str, body: bytes, headers: dict[str, str], *, timeout: float | None = None
    ) -> HttpResponse:
        """POST a body and read the whole response, whatever its status.

        Raises:
            OSError, http.client.HTTPException, ValueError: no complete response (`HTTP_ERRORS`).
        """
        return self.request("POST", path, body, headers, timeout=timeout)


def collector_tls() -> ssl.SSLContext:
    """Create a TLS context with OpenTelemetry's CA variable, or the system's CAs by default.

    The client certificate also comes from OpenTelemetry's variables.
    """
    context = ssl.create_default_context(cafile=os.environ.get(CA_FILE, "").strip() or None)
    if certificate := os.environ.get(CLIENT_CERTIFICATE, "").strip():
        context.load_cert_chain(certificate, os.environ.get(CLIENT_KEY, "").strip() or None)
    return context
