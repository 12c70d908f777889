"""Blocking HTTP/1.1 client: kept-alive connections, TLS, proxies, deadlines, bounded responses.

Redirects are not followed, so that an API key only reaches the configured host.
"""

import base64
import codecs
import http.client
import io
import ipaddress
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit
from urllib.request import (  # type: ignore[attr-defined]
    getproxies_environment,
    proxy_bypass_environment,
)

from tracereel._export.backoff import retry_after_seconds
from tracereel._runtime import gevent_compat

TIMEOUT: Final = 10.0
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024

HTTP_ERRORS: Final = (OSError, http.client.HTTPException, ValueError)
"""Exceptions raised if no complete response arrives; the connection is then closed."""
_CLOSED_WHILE_IDLE: Final = (
    http.client.RemoteDisconnected,
    ConnectionResetError,
    BrokenPipeError,
)

# Load the codec now: a fork during its first import would break it in the child.
codecs.lookup("idna")


class BodyTooLargeError(ValueError):
    """Response body longer than the allowed maximum."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Header values by lower-case name."""
    body: bytes

    @property
    def content_type(self) -> str:
        """Media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after(self) -> float | None:
        """Return Retry-After in seconds, or None."""
        return retry_after_seconds(self.headers.get("retry-after"), now=time.time())


class HttpConnection:
    """Connection to one origin, kept alive; used by one thread at a time.

    Args:
        url: scheme, host, port and path prefix of all requests.
        timeout: seconds for connecting, for sending, and for the whole response.
        tls: factory of the TLS context of a new connection.
        proxies: whether to use the proxies of the environment.
        native_sockets: whether to bypass gevent's sockets, for threads outside of gevent.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        max_body_bytes: int = MAX_BODY_BYTES,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        proxies: bool = True,
        native_sockets: bool = False,
    ) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self.host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path.rstrip("/")
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._max_body_bytes = max_body_bytes
        self._tls = tls
        self._proxies = proxies
        self._native_sockets = native_sockets
        self._connection: http.client.HTTPConnection | None = None
        self._proxy: Proxy | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Send a request and read the whole response, whatever its status.

        Raises:
            BodyTooLargeError: the response is longer than `max_body_bytes`.
            OSError, http.client.HTTPException, ValueError: no complete response (`HTTP_ERRORS`).
        """
        try:
            response = self._exchange(method, path, body, headers, timeout)
            data = _read(response, self._max_body_bytes)
        except BaseException:
            self.close()
            raise
        if response.will_close:
            self.close()
        return HttpResponse(response.status, headers_of(response), data)

    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> "HttpStream":
        """Send a request and return a response stream that takes over the connection.

        `timeout` limits the status and headers, then each read. For an error response it limits the
        whole response.

        Raises:
            OSError, http.client.HTTPException, ValueError: no response (`HTTP_ERRORS`).
        """
        try:
            response = self._exchange(method, path, body, headers, timeout)
        except BaseException:
            self.close()
            raise
        connection, self._connection = self._connection, None
        if 200 <= response.status < 300:
            response.allow_pauses()
        return HttpStream(connection, response)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> "DeadlineResponse":
        patience = self._timeout if timeout is None else timeout
        sent = {**self._headers, **(headers or {})}
        reused = self._connection is not None
        try:
            return self._send(method, path, body, sent, patience)
        except _CLOSED_WHILE_IDLE:
            self.close()
            if not reused:
                raise
            return self._send(method, path, body, sent, patience)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: float
    ) -> "DeadlineResponse":
        if self._connection is None:
            self._connection = self._connect(timeout)
        connection = self._connection
        if connection.sock is not None and connection.sock.gettimeout() != timeout:
            connection.sock.settimeout(timeout)
        target = self._prefix + path
        if self._proxy is not None and not self._secure:
            target, headers = self._origin + target, headers | self._proxy.headers
        connection.request(method, target, body, headers)
        return cast("DeadlineResponse", connection.getresponse())

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        proxy = proxy_for(self.host, secure=self._secure) if self._proxies else None
        self._proxy = proxy
        host, port = (self.host, self._port) if proxy is None else (proxy.host, proxy.port)
        connection: http.client.HTTPConnection
        if self._secure:
            connection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=self._tls()
            )
            if proxy is not None:
                connection.set_tunnel(self.host, self._port, proxy.headers)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        connection.response_class = DeadlineResponse
        if self._native_sockets:
            gevent_compat.use_real_sockets(connection, secure=self._secure)
        return connection


class HttpStream:
    """Response that is read in chunks; may be closed from another thread."""

    def __init__(
        self, connection: http.client.HTTPConnection | None, response: "DeadlineResponse"
    ) -> None:
        self._connection = connection
        self._response = response
        self._socket: socket.socket | None = response.sock
        self.status = response.status
        self.headers = headers_of(response)

    def read(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of the body.

        Raises:
            OSError, http.client.HTTPException, ValueError: the body is incomplete (`HTTP_ERRORS`).
        """
        data = b""
        for chunk in self.chunks():
            data += chunk
            if len(data) >= max_bytes:
                break
        return data[:max_bytes]

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in chunks.

        Raises:
            OSError, http.client.HTTPException, ValueError: the body is incomplete (`HTTP_ERRORS`).
        """
        try:
            yield from _chunks(self._response)
        except (
            AttributeError
        ) as error:  # raised by http.client if another thread closed the response
            raise ConnectionAbortedError("closed") from error

    def close(self) -> None:
        """Close the stream; further calls do nothing."""
        # A reader woken by the shutdown also calls close(); only one of them may close the socket.
        held, self._socket = self._socket, None
        if held is not None:
            try:
                held.shutdown(socket.SHUT_RDWR)  # wakes up a reader in another thread
            except OSError:
                pass  # already closed
            held.close()
            try:
                # The response owns the socket if the server closes after it (`Connection: close`).
                self._response.close()
            except (OSError, ValueError, AttributeError, RuntimeError):
                pass  # a reader in another thread is closing it
        if self._connection is not None:
            self._connection.close()


class DeadlineResponse(http.client.HTTPResponse):
    """Response whose status, headers and body must arrive within the socket's timeout.

    A socket timeout only limits single reads. http.client reads lines, headers and `100 Continue`
    without a total limit.
    """

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.sock = sock
        self.fp.close()
        self._reader = _DeadlineReader(sock)
        self.fp = io.BufferedReader(self._reader)

    def allow_pauses(self) -> None:
        """Apply the timeout to each read from now on."""
        self._reader.lift_deadline()


class _DeadlineReader(io.RawIOBase):
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        # The file object keeps the connection open until the response has been read.
        self._file = sock.makefile("rb", buffering=0)
        self._timeout = self._set = sock.gettimeout()
        self._deadline = time.monotonic() + (self._timeout or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._timeout is not None and self._set is not None:
            left = self._deadline - time.monotonic()
            if left <= 0.0:
                raise TimeoutError("the answer does not end")
            if self._set - left > self._timeout / 50:
                # Not on each read: settimeout is a system call and releases the interpreter lock.
                self._socket.settimeout(left)
                self._set = left
        return self._file.readinto(buffer)

    def lift_deadline(self) -> None:
        self._deadline = math.inf
        self._restore_timeout()

    def close(self) -> None:
        if not self.closed:
            self._restore_timeout()
            self._file.close()
        super().close()

    def _restore_timeout(self) -> None:
        try:
            if self._set != self._timeout:
                self._socket.settimeout(self._timeout)
                self._set = self._timeout
        except OSError:
            pass  # already closed


@dataclass(frozen=True, slots=True)
class Proxy:
    """Proxy from the environment for one destination."""

    host: str
    port: int
    headers: dict[str, str]


def proxy_for(host: str, *, secure: bool) -> Proxy | None:
    """Return the environment's proxy for a host; None for loopback hosts.

    Raises:
        ValueError: the proxy is of an unsupported kind.
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
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    """Return the headers of a response by lower-case name."""
    return {name.lower(): value for name, value in response.getheaders()}


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read1(CHUNK_BYTES):
        yield chunk
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _read(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    for chunk in _chunks(response):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLargeError(f"an answer of more than {max_bytes} bytes")
    # `read1` does not close a finished response; the connection could not be reused.
    response.close()
    return b"".join(chunks)
