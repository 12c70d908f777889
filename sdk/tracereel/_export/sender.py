"""Client of the collector's event, heartbeat and key endpoints.

A post has three outcomes: the collector accepted the lines (some may be rejected by index), it
refused them permanently, or it is unavailable and the lines are retried.
"""

import gzip
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from tracereel._export.collector_connection import CollectorConnection
from tracereel._export.http_client import HTTP_ERRORS, TIMEOUT, HttpResponse
from tracereel.config import Config

PATH: Final = "/v1/events"
HEARTBEATS: Final = "/v1/heartbeats"
IDENTITY: Final = "/v1/identity"
TENANT_HEADER: Final = "x-tracereel-tenant"
"""Response header with the tenant of the request's key."""
COMPRESS_ABOVE: Final = 1024

_TOO_LARGE: Final = 413
_BAD_DATA: Final = (400, 422)
_REFUSED_KEY: Final = (401, 403)
_NOT_A_REFUSAL: Final = (401, 403, 408, 429)
"""Statuses below 500 that may change later."""


@dataclass(frozen=True, slots=True)
class EventsAccepted:
    """The collector stored all lines but `rejected`: pairs of index and reason."""

    rejected: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EventsRefused:
    """The collector refuses these lines permanently."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeyState:
    """State of a queried key, and the tenant of the current key."""

    state: str
    tenant: str


class DeliveryUnavailableError(Exception):
    """The collector did not accept the lines for a temporary reason; retry later."""

    def __init__(
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        no_connection: bool = False,
        no_answer: bool = False,
        refused_key: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.no_connection = no_connection
        self.no_answer = no_answer
        self.refused_key = refused_key


def _compressed(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, 1, mtime=0)
    import zstandard  # optional

    # This level has a window of 2 MiB: it finds the history that the calls of a batch repeat.
    return zstandard.ZstdCompressor(level=3).compress(body)


class Sender:
    """Kept-alive connection to the collector; used by one thread at a time."""

    def __init__(self, config: Config, *, timeout: float = TIMEOUT) -> None:
        self._connection = CollectorConnection(config, timeout=timeout)
        self.tenant: str | None = None
        """Tenant of the current key, from the last response to events."""

    def post(self, lines: list[bytes]) -> EventsAccepted | EventsRefused:
        """Send lines and return the outcome.

        Raises:
            DeliveryUnavailableError: not accepted, for a temporary reason.
        """
        body, headers = b"".join(lines), {"content-type": "application/x-ndjson"}
        if self._connection.compression != "none" and len(body) > COMPRESS_ABOVE:
            headers["content-encoding"] = self._connection.compression
            body = _compressed(body, self._connection.compression)
        response = self._exchange(PATH, body, headers)
        answer = _judge(response)
        self.tenant = unquote(response.headers.get(TENANT_HEADER, ""))[:256] or self.tenant
        return answer

    def key_state(self, fingerprint: str) -> KeyState | None:
        """Return the state of a key by its fingerprint; None if not supported.

        Raises:
            DeliveryUnavailableError: no usable response, for a temporary reason.
        """
        response = self._exchange(f"{IDENTITY}?key={fingerprint}")
        body = _decode(response.body)
        key, tenant = body.get("key"), body.get("tenant")
        if response.status == 200 and isinstance(key, dict) and isinstance(tenant, str):
            return KeyState(str(key.get("state")), tenant)
        if response.status < 500 and response.status not in _NOT_A_REFUSAL:
            return None
        raise DeliveryUnavailableError(f"HTTP {response.status}", retry_after=response.retry_after)

    def post_heartbeat(self, body: bytes, *, timeout: float) -> bool:
        """Send a heartbeat; return False if the collector does not support heartbeats.

        Raises:
            DeliveryUnavailableError: not accepted, for a temporary reason.
        """
        headers = {"content-type": "application/json"}
        response = self._exchange(HEARTBEATS, body, headers, timeout=timeout)
        if response.status == 200 and isinstance(_decode(response.body).get("accepted"), int):
            return True
        if response.status < 500 and response.status not in _NOT_A_REFUSAL:
            return False
        raise DeliveryUnavailableError(f"HTTP {response.status}", retry_after=response.retry_after)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()

    def _exchange(
        self,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> HttpResponse:
        try:
            method = "GET" if body is None else "POST"
            return self._connection.request(method, path, body, headers, timeout=timeout)
        except HTTP_ERRORS as error:
            raise DeliveryUnavailableError(
                f"{type(error).__name__}: {error}",
                no_connection=isinstance(error, ConnectionRefusedError),
                no_answer=True,
            ) from error


def _judge(response: HttpResponse) -> EventsAccepted | EventsRefused:
    """Map a response to an outcome.

    Only a tracereel collector may accept or refuse lines. Another server at the address (a captive
    portal with 200, a proxy with 400) must not cause data loss.
    """
    status, body = response.status, _decode(response.body)
    if status == 200 and isinstance(body.get("accepted"), int):
        return EventsAccepted(_rejections(body.get("rejected")))
    if status == _TOO_LARGE:
        return EventsRefused("HTTP 413: too large")
    error = body.get("error")
    # A 403 concerns the key, which may be replaced, unless the response lists rejected lines.
    bad_data = status in _BAD_DATA or (status == 403 and isinstance(body.get("rejected"), list))
    if bad_data and isinstance(error, dict):
        return EventsRefused(f"HTTP {status}: {str(error.get('message'))[:500]}")
    message = f"HTTP {status}"
    if isinstance(error, dict):
        message += f": {str(error.get('message'))[:200]}"
    elif status == 200:
        message += " with an answer that is not a collector's"
    raise DeliveryUnavailableError(
        message, retry_after=response.retry_after, refused_key=status in _REFUSED_KEY
    )


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
