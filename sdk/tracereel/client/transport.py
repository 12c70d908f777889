"""Requests to the collector over the standard library's HTTP: one connection each, no redirects."""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, urlencode, urlsplit

from tracereel._connection import proxy_for, tls_context
from tracereel.client.errors import (
    AccessDeniedError,
    ClientError,
    CollectorUnavailableError,
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    UnexpectedAnswerError,
)
from tracereel.config import DEFAULT_ENDPOINT

DEFAULT_TIMEOUT: Final = 30.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""A longer answer is not read to its end; what is larger by nature is streamed."""
CHUNK_BYTES: Final = 64 * 1024

_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_DENIED: Final = frozenset({401, 403})
_REFUSED: Final = frozenset({400, 405, 409, 413, 415, 422})
Value = str | int | float | bool
Params = Mapping[str, Value | Sequence[Value] | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer of the collector, whole."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Stream:
    """An answer that is read as it comes; closes with its block, from any thread."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        sock: socket.socket | None,
    ) -> None:
        self._connection = connection
        # The connection lets go of it as soon as an answer says that it is the last one.
        self._socket = sock
        self._response = response
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """The body, piece by piece.

        Raises:
            ConnectionLostError: it stopped coming before its end.
        """
        try:
            while chunk := self._response.read1(CHUNK_BYTES):
                yield chunk
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            # A stream that is closed from another thread fails in all these ways.
            raise ConnectionLostError(f"the stream broke off ({_reason(error)})") from error

    def close(self) -> None:
        """End it; safe to call twice."""
        # Whoever is woken by this closes as well: each thread has hold of the socket itself.
        held, self._socket = self._socket, None
        if held is not None:
            try:
                held.shutdown(socket.SHUT_RDWR)  # wakes whoever reads in another thread
            except OSError:
                pass  # it is closed already
            held.close()
            try:
                # After an answer that is the last one, the connection is the answer's alone.
                self._response.close()
            except (OSError, ValueError, AttributeError, RuntimeError):
                pass  # whoever reads in another thread is just closing it
        self._connection.close()


class Transport:
    """Where the collector is and how it is asked; no state, safe to share between threads."""

    def __init__(self, endpoint: str | None, api_key: str | None, timeout: float) -> None:
        if endpoint is None:
            endpoint = os.environ.get("TRACEREEL_ENDPOINT") or DEFAULT_ENDPOINT
        key = api_key if api_key is not None else os.environ.get("TRACEREEL_API_KEY")
        self.endpoint = endpoint.rstrip("/")
        self.timeout = timeout
        self._url = _checked(self.endpoint)
        self._headers = {"Accept": "application/json", "User-Agent": "tracereel"}
        if key:
            if not (key.isascii() and key.isprintable()):
                raise InvalidRequestError(
                    "api_key: contains characters that a header cannot carry;"
                    " expected printable ASCII"
                )
            self._headers["x-api-key"] = key

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, whatever the status of the answer; redirects are not followed.

        Raises:
            CollectorUnavailableError: no whole answer arrived.
        """
        opened = self._open(method, path, params, body, headers or {}, self.timeout)
        connection, response, _ = opened
        try:
            data = response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            response.close()
            connection.close()
        if len(data) > MAX_ANSWER_BYTES:
            raise UnexpectedAnswerError(
                f"the answer of {self.endpoint} is longer than {MAX_ANSWER_BYTES} bytes"
            )
        return Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            data,
        )

    def fetch(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request that has to succeed.

        Raises:
            ClientError: one of its kinds, with a message that says what to do.
        """
        answer = self.ask(method, path, params=params, body=body, headers=headers)
        self.refuse_failure(answer.status, answer.headers, answer.body)
        return answer

    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> Stream:
        """An answer to be read as it comes; `silence` is the longest pause it may make.

        Raises:
            ClientError: one of its kinds.
        """
        patience = silence or self.timeout
        opened = self._open(method, path, params, body, headers or {}, patience)
        connection, response, _ = opened
        if response.status == http.HTTPStatus.OK:
            return Stream(*opened)
        try:
            said = response.read(CHUNK_BYTES)
        except (OSError, http.client.HTTPException):
            said = b""
        finally:
            response.close()
            connection.close()
        told = {name.lower(): value for name, value in response.getheaders()}
        self.refuse_failure(response.status, told, said)
        raise UnexpectedAnswerError(f"{self.endpoint} answered {response.status} to a stream")

    def refuse_failure(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Nothing for an answer that is fine, else the error it means."""
        if http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES:
            return
        said = _error_message(body) or str(status)
        if status in _DENIED:
            raise AccessDeniedError(
                f"{self.endpoint} refused this ({said});"
                " a key is given with --api-key or TRACEREEL_API_KEY"
            )
        if status in _RETRYABLE:
            raise CollectorUnavailableError(
                f"{self.endpoint} cannot answer now ({said}); try again shortly",
                retry_after=_seconds(headers.get("retry-after")),
            )
        if status == http.HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"{self.endpoint}: {said}", code=_error_code(body))
        if status in _REFUSED:
            raise InvalidRequestError(f"{self.endpoint} refused the request: {said}")
        raise UnexpectedAnswerError(f"{self.endpoint} answered {status} ({said})")

    def _open(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, socket.socket | None]:
        target = self._url.path + path
        if query := encoded(params or {}):
            target += f"?{query}"
        try:
            connection, extra, target = self._connection(target, timeout)
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        try:
            connection.request(method, target, body, {**self._headers, **extra, **headers})
            sock = connection.sock
            return connection, connection.getresponse(), sock
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise

    def _connection(
        self, target: str, timeout: float
    ) -> tuple[http.client.HTTPConnection, dict[str, str], str]:
        """A connection, what its proxy wants to be told, and what to ask it for."""
        host, port = self._url.hostname or "", self._url.port
        secure = self._url.scheme == "https"
        proxy = proxy_for(host, secure=secure)
        to = (host, port) if proxy is None else (proxy.host, proxy.port)
        if not secure:
            plain = http.client.HTTPConnection(*to, timeout=timeout)
            if proxy is None:
                return plain, {}, target
            return plain, proxy.headers, f"{self._url.scheme}://{self._url.netloc}{target}"
        connection = http.client.HTTPSConnection(*to, timeout=timeout, context=tls_context())
        if proxy is not None:
            connection.set_tunnel(host, port or 443, proxy.headers)
        return connection, {}, target

    def _unreachable(self, error: BaseException) -> ClientError:
        if isinstance(error, TimeoutError):
            return CollectorUnavailableError(
                f"no answer from {self.endpoint} within {self.timeout:g} s"
            )
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
            # Its text is the first bytes that came: those of gRPC, of TLS, of any other program.
            return UnexpectedAnswerError(
                f"what answers at {self.endpoint} does not speak HTTP; expected the collector's"
                " HTTP port, 4318 unless told (4317 is gRPC)"
            )
        return CollectorUnavailableError(
            f"no collector answers at {self.endpoint} ({_reason(error)})"
        )


def encoded(params: Params) -> str:
    """Parameters as a query; what is None is left out, a list is given once per value."""
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        pairs += [
            (name, str(each).lower() if isinstance(each, bool) else str(each))
            for each in values
            if each is not None
        ]
    return urlencode(pairs)


def _checked(endpoint: str) -> SplitResult:
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname)
        _ = url.port  # a property that refuses what is not a port
    except ValueError:
        usable = False
    if not usable or not (endpoint.isascii() and endpoint.isprintable()) or " " in endpoint:
        raise InvalidRequestError(
            f"endpoint: {endpoint!r} is not an address; expected http://HOST:PORT or https://HOST"
        )
    return url


def _error_code(body: bytes) -> str:
    """What the collector calls it."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "not_found"


def _error_message(body: bytes) -> str:
    """What the collector said went wrong, in its own error shape; empty when it said nothing."""
    try:
        error = json.loads(body)["error"]
        parts = [str(error[key]) for key in ("message", "hint") if error.get(key)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return "; ".join(parts)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
