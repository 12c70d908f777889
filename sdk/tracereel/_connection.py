"""One kept-alive HTTP connection to the collector: TLS, proxies, deadlines, bounded answers."""

import base64
import codecs
import http.client
import ipaddress
import os
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies_environment,
    proxy_bypass_environment,
)

from tracereel import _native
from tracereel._answers import TimedResponse
from tracereel.config import Config

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
TIMEOUT: Final = 10.0
"""Seconds for connecting, for sending, and for the whole of an answer."""
MAX_RETRY_AFTER: Final = 300.0
CA_FILE: Final = "OTEL_EXPORTER_OTLP_CERTIFICATE"
CLIENT_CERTIFICATE: Final = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
CLIENT_KEY: Final = "OTEL_EXPORTER_OTLP_CLIENT_KEY"

TROUBLE: Final = (OSError, http.client.HTTPException, ValueError)
"""What `Connection.post` raises when there is no answer; the connection is closed then."""

# Connecting looks this codec up; a first import that a fork cuts in two would spoil it for good.
codecs.lookup("idna")


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    content_type: str
    retry_after: float | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy of the environment, for one destination."""

    host: str
    port: int
    headers: dict[str, str]


class Connection:
    """A destination and the connection to it, made when needed; used by one thread at a time."""

    def __init__(self, config: Config, *, timeout: float = TIMEOUT) -> None:
        url = urlsplit(config.endpoint)
        self._secure = url.scheme == "https"
        self._host = url.hostname or ""
        self._port = url.port
        self._origin = f"{url.scheme}://{url.netloc}"
        self._prefix = url.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"user-agent": "tracereel-sdk"}
        if config.api_key is not None:
            self._headers["x-api-key"] = config.api_key
        self.compresses = config.compression == "gzip" or (
            config.compression == "auto" and not is_loopback(self._host)
        )
        """Whether bodies are worth compressing on the way to this destination."""
        self._connection: http.client.HTTPConnection | None = None
        self._proxy: Proxy | None = None

    def post(
        self, path: str, body: bytes, headers: dict[str, str], *, timeout: float | None = None
    ) -> Response:
        """Send a body and read the answer, whatever it says.

        Raises:
            OSError, http.client.HTTPException, ValueError: there is none (`TROUBLE`).
        """
        patience = self._timeout if timeout is None else timeout
        headers = self._headers | headers
        try:
            reused = self._connection is not None
            try:
                return self._request(path, body, headers, patience)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self.close()
                if not reused:
                    raise
                # The collector closed an idle connection: that is no trouble, a new one will do.
                return self._request(path, body, headers, patience)
        except TROUBLE:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection; the next post makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _request(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> Response:
        if self._connection is None:
            self._connection = self._connect(timeout)
        connection = self._connection
        if connection.sock is not None and connection.sock.gettimeout() != timeout:
            connection.sock.settimeout(timeout)
        target = self._prefix + path
        if self._proxy is not None and not self._secure:
            target, headers = self._origin + target, headers | self._proxy.headers
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        answer = _read(response)
        if response.will_close:
            self.close()
        return Response(
            response.status,
            (response.getheader("content-type") or "").partition(";")[0].strip().lower(),
            _seconds(response.getheader("retry-after")),
            answer,
        )

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        proxy = self._proxy = proxy_for(self._host, secure=self._secure)
        host, port = (self._host, self._port) if proxy is None else (proxy.host, proxy.port)
        connection: http.client.HTTPConnection
        if self._secure:
            connection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=tls_context()
            )
            if proxy is not None:
                connection.set_tunnel(self._host, self._port or 443, proxy.headers)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        connection.response_class = TimedResponse
        _native.use_real_sockets(connection, secure=self._secure)
        return connection


def tls_context() -> ssl.SSLContext:
    """Who is trusted: OpenTelemetry's variable, else the system (`SSL_CERT_FILE`, `SSL_CERT_DIR`)."""
    context = ssl.create_default_context(cafile=os.environ.get(CA_FILE, "").strip() or None)
    if certificate := os.environ.get(CLIENT_CERTIFICATE, "").strip():
        context.load_cert_chain(certificate, os.environ.get(CLIENT_KEY, "").strip() or None)
    return context


def proxy_for(host: str, *, secure: bool) -> Proxy | None:
    """The proxy that the environment names for a host; this machine is always reached directly.

    Raises:
        ValueError: it names one of a kind that is not spoken here.
    """
    if is_loopback(host):
        return None
    proxies = getproxies_environment()
    named = proxies.get("https" if secure else "http") or proxies.get("all")
    if not named or proxy_bypass_environment(host, proxies):
        return None
    url = urlsplit(named if "://" in named else f"http://{named}")
    if url.scheme != "http" or not url.hostname:
        raise ValueError(f"the proxy is of kind {url.scheme!r}; expected http://host:port")
    headers = {}
    if url.username:
        account = f"{unquote(url.username)}:{unquote(url.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(account.encode()).decode()}"
    return Proxy(url.hostname, url.port or 80, headers)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(response: http.client.HTTPResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(65_536):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_RESPONSE_BYTES:
            raise ValueError(f"an answer of more than {MAX_RESPONSE_BYTES} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"".join(chunks), response.length)
    # `read1` leaves a finished response open, and the connection could not be used again.
    response.close()
    return b"".join(chunks)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; the date form is not used by collectors and is ignored."""
    try:
        return min(max(float(retry_after or ""), 0.0), MAX_RETRY_AFTER)
    except ValueError:
        return None
