"""One destination over HTTP: posts lines to `/v1/events` and says what became of them.

Three answers exist, and who meets them decides nothing else: the collector took the lines (some may
be rejected by index), it refuses them as they are, or it cannot be reached or used at the moment.
"""

import codecs
import gzip
import http.client
import ipaddress
import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tracereel import _native
from tracereel._answers import TimedResponse
from tracereel.config import Config

PATH: Final = "/v1/events"
MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
COMPRESS_ABOVE: Final = 1024
TIMEOUT: Final = 10.0
"""Seconds for connecting, for sending, and for the whole of an answer."""
MAX_RETRY_AFTER: Final = 300.0

# Connecting looks this codec up; a first import that a fork cuts in two would spoil it for good.
codecs.lookup("idna")

_TOO_LARGE: Final = 413
_BAD_DATA: Final = (400, 422)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The collector has the lines for good, except those rejected: (index, reason)."""

    rejected: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The collector will not take these lines, now or later."""

    reason: str


class UnavailableError(Exception):
    """The lines were not taken, and it is not their fault: try again later."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, no_connection: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.no_connection = no_connection


class Sender:
    """A kept-alive connection to the collector; used by one thread at a time."""

    def __init__(self, config: Config, *, timeout: float = TIMEOUT) -> None:
        url = urlsplit(config.endpoint)
        self._secure = url.scheme == "https"
        self._host = url.hostname or ""
        self._port = url.port
        self._path = url.path.rstrip("/") + PATH
        self._timeout = timeout
        self._headers = {"content-type": "application/x-ndjson", "user-agent": "tracereel-sdk"}
        if config.api_key is not None:
            self._headers["x-api-key"] = config.api_key
        self._compress = config.compression == "gzip" or (
            config.compression == "auto" and not _is_loopback(self._host)
        )
        self._connection: http.client.HTTPConnection | None = None

    def post(self, lines: list[bytes]) -> Accepted | Refused:
        """Send lines and read the answer.

        Raises:
            UnavailableError: not taken for a reason that may pass.
        """
        body, headers = b"".join(lines), self._headers
        if self._compress and len(body) > COMPRESS_ABOVE:
            body, headers = gzip.compress(body, 1, mtime=0), headers | {"content-encoding": "gzip"}
        try:
            status, retry_after, answer = self._exchange(body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            refused = isinstance(error, ConnectionRefusedError)
            raise UnavailableError(
                f"{type(error).__name__}: {error}", no_connection=refused
            ) from error
        return _judge(status, retry_after, answer)

    def close(self) -> None:
        """Drop the connection; the next post makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, bytes]:
        reused = self._connection is not None
        try:
            return self._request(body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not reused:
                raise
            # The collector closed an idle connection: that is no trouble, a new one will do.
            return self._request(body, headers)

    def _request(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        answer = self._read(response)
        if response.will_close:
            self.close()
        return response.status, response.getheader("retry-after"), answer

    def _connect(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._secure:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        connection.response_class = TimedResponse
        _native.use_real_sockets(connection, secure=self._secure)
        return connection

    def _read(self, response: http.client.HTTPResponse) -> bytes:
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


def _judge(status: int, retry_after: str | None, answer: bytes) -> Accepted | Refused:
    """What an answer means.

    Only a collector of ours can take lines or call them bad: any other server that sits at the
    address (a portal saying 200, a proxy saying 400) must not make events disappear.
    """
    body = _decode(answer)
    if status == 200 and isinstance(body.get("accepted"), int):
        return Accepted(_rejections(body.get("rejected")))
    if status == _TOO_LARGE:
        return Refused("HTTP 413: too large")
    error = body.get("error")
    # A 403 is about the key, and a better one may follow; about the lines only if they are named.
    bad_data = status in _BAD_DATA or (status == 403 and isinstance(body.get("rejected"), list))
    if bad_data and isinstance(error, dict):
        return Refused(f"HTTP {status}: {str(error.get('message'))[:500]}")
    message = f"HTTP {status}"
    if isinstance(error, dict):
        message += f": {str(error.get('message'))[:200]}"
    elif status == 200:
        message += " with an answer that is not a collector's"
    raise UnavailableError(message, retry_after=_seconds(retry_after))


def _decode(answer: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _rejections(value: object) -> tuple[tuple[int, str], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        (entry["index"], str(entry.get("reason"))[:500])
        for entry in value
        if isinstance(entry, dict) and isinstance(entry.get("index"), int)
    )


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; the date form is not used by collectors and is ignored."""
    try:
        return min(max(float(retry_after or ""), 0.0), MAX_RETRY_AFTER)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
