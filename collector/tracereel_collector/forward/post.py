"""One request to the target: sent, refused for good, or worth another try, and when."""

import http.client
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracereel_collector.forward.target import Target

PATH_HEADER = "x-tracereel-forwarded-by"
"""The collectors that a request has passed, so that none sends it round in a circle."""
RETRYABLE = frozenset({429, 502, 503, 504})
MAX_RETRY_AFTER = 300.0
_MOST_READ = 64 * 1024
_REFUSED: dict[str, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
}


@dataclass(frozen=True, slots=True)
class Sent:
    """It was taken, less what the target says it refused."""

    refused: int


@dataclass(frozen=True, slots=True)
class Refused:
    """It will not be taken, however often it is sent."""

    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """It may be taken later; not before `seconds` are over, if the target said so."""

    why: str
    seconds: float = 0.0


class Connection:
    """A connection to the target that is kept open; for one thread."""

    def __init__(self, target: Target, *, seconds: float) -> None:
        self._target = target
        self._seconds = seconds
        self._open: http.client.HTTPConnection | None = None

    def post(self, signal: str, body: bytes, *, passed: str) -> Sent | Refused | Later:
        """Send a request; redirects are not followed, for the headers may hold a key."""
        headers = {
            **self._target.headers,
            "content-type": "application/x-protobuf",
            PATH_HEADER: passed,
        }
        try:
            connection = self._connection()
            connection.request("POST", self._target.path_of(signal), body, headers)
            answer = connection.getresponse()
            data = answer.read(_MOST_READ)
            if not answer.isclosed():
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Later(f"{type(error).__name__}: {error}"[:200])
        if 200 <= answer.status < 300:
            return Sent(_count_refused(signal, data))
        why = f"HTTP {answer.status}"
        if answer.status in RETRYABLE:
            return Later(why, retry_after(answer.headers.get("retry-after"), now=time.time()))
        return Refused(why)

    def close(self) -> None:
        """Let go of the connection."""
        if self._open is not None:
            self._open.close()
        self._open = None

    def _connection(self) -> http.client.HTTPConnection:
        if self._open is None:
            target = self._target
            self._open = (
                http.client.HTTPSConnection(
                    target.host,
                    target.port,
                    timeout=self._seconds,
                    context=ssl.create_default_context(),
                )
                if target.secure
                else http.client.HTTPConnection(target.host, target.port, timeout=self._seconds)
            )
        return self._open


def retry_after(text: str | None, *, now: float) -> float:
    """Seconds that a `Retry-After` asks for, as a number or a date; 0 where it asks for nothing."""
    if not text:
        return 0.0
    try:
        seconds = float(text) if text.strip().isdigit() else _until(text, now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _until(text: str, now: float) -> float:
    return parsedate_to_datetime(text).timestamp() - now


def _count_refused(signal: str, data: bytes) -> int:
    kind, field = _REFUSED[signal]
    answer = kind()
    try:
        answer.ParseFromString(data)
        return int(getattr(answer.partial_success, field))
    except DecodeError:
        return 0
