"""Requests to a collector, one connection each, and responses parsed as models."""

import http.client
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import ValidationError

from tracereel._export.collector_connection import collector_tls
from tracereel._export.http_client import (
    HTTP_ERRORS,
    BodyTooLargeError,
    HttpConnection,
    HttpResponse,
    HttpStream,
)
from tracereel.client.errors import (
    AccessDeniedError,
    ClientError,
    CollectorUnavailableError,
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.models import Model
from tracereel.config import DEFAULT_ENDPOINT

DEFAULT_TIMEOUT: Final = 30.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of a response body; larger data is streamed."""
MAX_ERROR_BYTES: Final = 64 * 1024
STREAM_SILENCE: Final = 60.0
"""Seconds without data after which a stream is dead; the collector sends every few seconds."""
STEP_NOT_FOUND: Final = "step_not_found"

_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_DENIED: Final = frozenset({401, 403})
_REFUSED: Final = frozenset({400, 405, 409, 413, 415, 422})
Answer = HttpResponse
Value = str | int | float | bool
Params = Mapping[str, Value | Sequence[Value] | None]
Found = TypeVar("Found", bound=Model)
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class ResponseStream:
    """Streamed response; can be closed from any thread."""

    def __init__(self, opened: HttpStream) -> None:
        self._opened = opened
        self.headers = opened.headers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in chunks."""
        try:
            yield from self._opened.chunks()
        except HTTP_ERRORS as error:
            raise ConnectionLostError(f"the stream broke off ({_reason(error)})") from error

    def close(self) -> None:
        """Close the connection; safe to call again."""
        self._opened.close()


class Transport:
    """Endpoint and credentials of a collector; stateless, safe to share between threads."""

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if endpoint is None:
            endpoint = os.environ.get("TRACEREEL_ENDPOINT") or DEFAULT_ENDPOINT
        key = api_key if api_key is not None else os.environ.get("TRACEREEL_API_KEY")
        self.endpoint = endpoint.rstrip("/")
        self.timeout = timeout
        _check(self.endpoint)
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
        params: Params | None = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and return the response of any status; redirects are not followed.

        Raises:
            CollectorUnavailableError: no complete response arrived.
        """
        connection = self._connection()
        try:
            return connection.request(method, _target(path, params), body, headers)
        except BodyTooLargeError as error:
            raise UnexpectedAnswerError(
                f"the answer of {self.endpoint} is longer than {MAX_ANSWER_BYTES} bytes"
            ) from error
        except HTTP_ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def fetch(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and return its successful response.

        Raises:
            ClientError: a subclass, with a message that suggests a remedy.
        """
        answer = self.ask(method, path, params, body=body, headers=headers)
        self.refuse_failure(answer)
        return answer

    def fetch_model(self, kind: type[Found], path: str, params: Params | None = None) -> Found:
        """Send a GET request and return its response as a model."""
        return self.parsed(kind, self.fetch("GET", path, params).body)

    def post_json(
        self, path: str, document: Any, params: Params | None = None
    ) -> Mapping[str, Any]:
        """Send a JSON document and return the JSON response."""
        body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
        return self.document(self.fetch("POST", path, params, body=body, headers=headers).body)

    def fetch_of_traces(
        self, path: str, ids: Sequence[str], params: Params | None = None
    ) -> Answer:
        """Request something of traces; name those that are missing."""
        try:
            return self.fetch("GET", path, params)
        except NotFoundError as error:
            if error.code == STEP_NOT_FOUND:
                raise TraceNotFoundError(str(error), code=error.code) from error
            named = [each for each in ids if repr(each) in str(error)] or ids
            raise TraceNotFoundError(
                f"no events of trace {' or '.join(map(repr, named))} at {self.endpoint}"
                " (a run shows up once it is delivered and stored)"
            ) from error

    def document(self, body: bytes) -> dict[str, Any]:
        """Parse a response as a JSON object."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a JSON object;"
                " is it a tracereel collector?"
            )
        return document

    def parsed(self, kind: type[Found], body: bytes) -> Found:
        """Parse a response as a model."""
        return self.validated(kind, self.document(body))

    def validated(self, kind: type[Found], document: Any) -> Found:
        """Check a document as a model."""
        try:
            return kind.model_validate(document)
        except (ValidationError, RecursionError) as error:
            where = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a {kind.__name__}"
                f" ({'.'.join(map(str, where))}); is it a tracereel collector of this version?"
            ) from error

    def open_events(self, path: str, params: Params, seen: str | None) -> ResponseStream:
        """Open an event stream behind the last seen event."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": seen} if seen else {})}
        opened = self.open_stream(path, params, headers=headers, silence=STREAM_SILENCE)
        if not opened.headers.get("content-type", "").startswith("text/event-stream"):
            opened.close()
            raise UnexpectedAnswerError(
                f"{self.endpoint} does not stream {path}; is it a collector of this version?"
            )
        return opened

    def open_stream(
        self,
        path: str,
        params: Params,
        *,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> ResponseStream:
        """Open a streamed response; `silence` is the maximum pause in seconds.

        Raises:
            ClientError: the request failed.
        """
        try:
            opened = self._connection().stream(
                "GET", _target(path, params), None, headers, timeout=silence
            )
        except HTTP_ERRORS as error:
            raise self._unreachable(error) from error
        if opened.status == http.HTTPStatus.OK:
            return ResponseStream(opened)
        try:
            body = opened.read(MAX_ERROR_BYTES)
        except HTTP_ERRORS:
            body = b""
        finally:
            opened.close()
        self.refuse_failure(Answer(opened.status, opened.headers, body))
        raise UnexpectedAnswerError(f"{self.endpoint} answered {opened.status} to a stream")

    def refuse_failure(self, answer: Answer) -> None:
        """Raise the client error for a response that is not successful."""
        status, body = answer.status, answer.body
        if http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES:
            return
        message = _error_message(body) or str(status)
        if status in _DENIED:
            raise AccessDeniedError(
                f"{self.endpoint} refused this ({message});"
                " a key is given with --api-key or TRACEREEL_API_KEY"
            )
        if status in _RETRYABLE:
            raise CollectorUnavailableError(
                f"{self.endpoint} cannot answer now ({message}); try again shortly",
                retry_after=answer.retry_after,
            )
        if status == http.HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"{self.endpoint}: {message}", code=_error_code(body))
        if status in _REFUSED:
            raise InvalidRequestError(f"{self.endpoint} refused the request: {message}")
        raise UnexpectedAnswerError(f"{self.endpoint} answered {status} ({message})")

    def _connection(self) -> HttpConnection:
        return HttpConnection(
            self.endpoint,
            headers=self._headers,
            timeout=self.timeout,
            max_body_bytes=MAX_ANSWER_BYTES,
            tls=collector_tls,
        )

    def _unreachable(self, error: BaseException) -> ClientError:
        if isinstance(error, TimeoutError):
            return CollectorUnavailableError(
                f"no answer from {self.endpoint} within {self.timeout:g} s"
            )
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
            # Its text is the first bytes received: gRPC, TLS or another protocol.
            return UnexpectedAnswerError(
                f"what answers at {self.endpoint} does not speak HTTP; expected the collector's"
                " HTTP port, 4318 by default (4317 is gRPC)"
            )
        return CollectorUnavailableError(
            f"no collector answers at {self.endpoint} ({_reason(error)})"
        )


def path_of(trace_id: str) -> str:
    """Return a trace id as a path segment."""
    if _TRACE_ID.fullmatch(trace_id) is None:
        raise InvalidRequestError(
            f"trace_id: {trace_id!r} is not one; expected 1 to 128 letters, digits and _ . : -"
        )
    return quote(trace_id, safe="")


def _target(path: str, params: Params | None) -> str:
    """Append parameters as a query; skip None and repeat the name for each list item."""
    pairs: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        pairs += [
            (name, str(each).lower() if isinstance(each, bool) else str(each))
            for each in values
            if each is not None
        ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _check(endpoint: str) -> None:
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname)
        _ = url.port  # the property raises ValueError for an invalid port
    except ValueError:
        usable = False
    if not usable or not (endpoint.isascii() and endpoint.isprintable()) or " " in endpoint:
        raise InvalidRequestError(
            f"endpoint: {endpoint!r} is not an address; expected http://HOST:PORT or https://HOST"
        )


def _error_code(body: bytes) -> str:
    """Return the error code of a response."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "not_found"


def _error_message(body: bytes) -> str:
    """Return the error message of a response, or an empty string."""
    try:
        error = json.loads(body)["error"]
        parts = [str(error[key]) for key in ("message", "hint") if error.get(key)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return "; ".join(parts)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
