"""Read a recorded run back from the collector.

ClientError
 ├ InvalidRequestError        the endpoint or the trace id cannot be right; nothing was sent
 ├ CollectorUnavailableError  nobody answered, or the collector says to come back later
 ├ AccessDeniedError          the API key is missing or not accepted
 ├ TraceNotFoundError         the collector has no event of this trace
 └ UnexpectedAnswerError      an answer that this version cannot read
"""

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlsplit

from tracereel.errors import TracereelError

DEFAULT_TIMEOUT: Final = 30.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""A longer answer is not a replay; reading stops there."""

_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_RETRYABLE: Final = frozenset({429, 502, 503, 504})


class ClientError(TracereelError):
    """A request to the collector did not give what was asked for."""


class InvalidRequestError(ClientError):
    """The endpoint or the trace id cannot be right; nothing was sent."""


class CollectorUnavailableError(ClientError):
    """Nobody answered, or the collector says to come back later."""


class AccessDeniedError(ClientError):
    """The API key is missing or not accepted."""


class TraceNotFoundError(ClientError):
    """The collector has no event of this trace."""


class UnexpectedAnswerError(ClientError):
    """An answer that this version cannot read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer of the collector, whole."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a timeline."""

    time: str
    event: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded run: its events in causal order and what they add up to."""

    trace_id: str
    timeline: tuple[Step, ...]
    summary: Mapping[str, Any]
    raw: bytes
    """The answer as the collector sent it."""


class ReplayClient:
    """Reads runs from a collector; one connection per call, no state, safe to share."""

    def __init__(
        self,
        endpoint: str,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._url = _checked(self.endpoint)
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "tracereel"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise InvalidRequestError(
                    "api_key: contains characters that a header cannot carry;"
                    " expected printable ASCII"
                )
            self._headers["x-api-key"] = api_key

    def replay(self, trace_id: str) -> Replay:
        """The recorded run of that trace id.

        Raises:
            ClientError: one of its kinds, with a message that says what to do.
        """
        if _TRACE_ID.fullmatch(trace_id) is None:
            raise InvalidRequestError(
                f"trace_id: {trace_id!r} is not one; expected 1 to 128 letters, digits and _ . : -"
            )
        answer = self.get(f"/v1/replay/{quote(trace_id, safe='')}")
        if answer.status == http.HTTPStatus.NOT_FOUND:
            raise TraceNotFoundError(
                f"no events of trace {trace_id!r} at {self.endpoint}"
                " (a run shows up once it is delivered and stored)"
            )
        self._refuse_failure(answer)
        return _parse_replay(answer.body, self.endpoint)

    def tape(self, trace_id: str) -> bytes:
        """What was recorded of a run for its re-execution, as NDJSON.

        Raises:
            ClientError: one of its kinds, with a message that says what to do.
        """
        if _TRACE_ID.fullmatch(trace_id) is None:
            raise InvalidRequestError(
                f"trace_id: {trace_id!r} is not one; expected 1 to 128 letters, digits and _ . : -"
            )
        answer = self.get(f"/v1/traces/{quote(trace_id, safe='')}/tape")
        if answer.status == http.HTTPStatus.NOT_FOUND:
            said = _error_message(answer.body)
            raise TraceNotFoundError(said or f"no tape of trace {trace_id!r} at {self.endpoint}")
        self._refuse_failure(answer)
        return answer.body

    def get(self, path: str) -> Answer:
        """One GET, whatever the status; redirects are not followed (they would carry the key).

        Raises:
            CollectorUnavailableError: no whole answer arrived.
        """
        connection = self._connection()
        try:
            connection.request("GET", self._url.path + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read(MAX_ANSWER_BYTES + 1)
        except TimeoutError as error:
            raise CollectorUnavailableError(
                f"no answer from {self.endpoint} within {self._timeout:g} s"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CollectorUnavailableError(
                f"no collector answers at {self.endpoint} ({reason})"
            ) from error
        finally:
            connection.close()
        if len(body) > MAX_ANSWER_BYTES:
            raise UnexpectedAnswerError(
                f"the answer of {self.endpoint} is longer than {MAX_ANSWER_BYTES} bytes"
            )
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)

    def _connection(self) -> http.client.HTTPConnection:
        assert self._url.hostname is not None  # noqa: S101 - checked when the client was made
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(
                self._url.hostname, self._url.port, timeout=self._timeout
            )
        return http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=self._timeout)

    def _refuse_failure(self, answer: Answer) -> None:
        if answer.status == http.HTTPStatus.OK:
            return
        said = _error_message(answer.body)
        if answer.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise AccessDeniedError(
                f"{self.endpoint} refused the API key ({said or answer.status});"
                " pass --api-key or set TRACEREEL_API_KEY"
            )
        if answer.status in _RETRYABLE:
            raise CollectorUnavailableError(
                f"{self.endpoint} cannot answer now ({said or answer.status}); try again shortly"
            )
        raise UnexpectedAnswerError(
            f"{self.endpoint} answered {answer.status} ({said or 'no text'})"
        )


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


def _error_message(body: bytes) -> str:
    """What the collector said went wrong, in its own error shape; empty when it said nothing."""
    try:
        error = json.loads(body)["error"]
        parts = [str(error[key]) for key in ("message", "hint") if error.get(key)]
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return "; ".join(parts)


def _parse_replay(body: bytes, endpoint: str) -> Replay:
    try:
        document = json.loads(body)
        timeline = tuple(
            Step(str(entry["time"]), str(entry["event"]), dict(entry["details"]))
            for entry in document["timeline"]
        )
        return Replay(str(document["trace_id"]), timeline, dict(document["summary"]), body)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UnexpectedAnswerError(
            f"{endpoint} sent something that is not a replay"
            ' (expected {"trace_id", "timeline", "summary"}); is it a tracereel collector?'
        ) from error
