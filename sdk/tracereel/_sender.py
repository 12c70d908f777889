"""What the collector says to events: posts lines to `/v1/events` and says what became of them.

Three answers exist, and who meets them decides nothing else: the collector took the lines (some may
be rejected by index), it refuses them as they are, or it cannot be reached or used at the moment.
"""

import gzip
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel._connection import TIMEOUT, TROUBLE, Connection, Response
from tracereel.config import Config

PATH: Final = "/v1/events"
HEARTBEATS: Final = "/v1/heartbeats"
COMPRESS_ABOVE: Final = 1024

_TOO_LARGE: Final = 413
_BAD_DATA: Final = (400, 422)
_NOT_A_REFUSAL: Final = (401, 403, 408, 429)
"""Answers below 500 that may be different later."""


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
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        no_connection: bool = False,
        no_answer: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.no_connection = no_connection
        self.no_answer = no_answer


class Sender:
    """A kept-alive connection to the collector; used by one thread at a time."""

    def __init__(self, config: Config, *, timeout: float = TIMEOUT) -> None:
        self._connection = Connection(config, timeout=timeout)

    def post(self, lines: list[bytes]) -> Accepted | Refused:
        """Send lines and read the answer.

        Raises:
            UnavailableError: not taken for a reason that may pass.
        """
        body, headers = b"".join(lines), {"content-type": "application/x-ndjson"}
        if self._connection.compresses and len(body) > COMPRESS_ABOVE:
            body = gzip.compress(body, 1, mtime=0)
            headers["content-encoding"] = "gzip"
        return _judge(self._exchange(PATH, body, headers))

    def post_heartbeat(self, body: bytes, *, timeout: float) -> bool:
        """Send a heartbeat; false when the collector takes none, now or later.

        Raises:
            UnavailableError: not taken for a reason that may pass.
        """
        headers = {"content-type": "application/json"}
        response = self._exchange(HEARTBEATS, body, headers, timeout=timeout)
        if response.status == 200 and isinstance(_decode(response.body).get("accepted"), int):
            return True
        if response.status < 500 and response.status not in _NOT_A_REFUSAL:
            return False
        raise UnavailableError(f"HTTP {response.status}", retry_after=response.retry_after)

    def close(self) -> None:
        """Drop the connection; the next post makes another."""
        self._connection.close()

    def _exchange(
        self, path: str, body: bytes, headers: dict[str, str], *, timeout: float | None = None
    ) -> Response:
        try:
            return self._connection.post(path, body, headers, timeout=timeout)
        except TROUBLE as error:
            raise UnavailableError(
                f"{type(error).__name__}: {error}",
                no_connection=isinstance(error, ConnectionRefusedError),
                no_answer=True,
            ) from error


def _judge(response: Response) -> Accepted | Refused:
    """What an answer means.

    Only a collector of ours can take lines or call them bad: any other server that sits at the
    address (a portal saying 200, a proxy saying 400) must not make events disappear.
    """
    status, body = response.status, _decode(response.body)
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
    raise UnavailableError(message, retry_after=response.retry_after)


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
