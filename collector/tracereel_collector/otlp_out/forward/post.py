"""HTTP request to the target, with the outcome sent, refused or retry later."""

import http.client
import ssl
import time
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracereel._export.backoff import retry_after_seconds
from tracereel_collector.otlp_out.forward.target import Target

PATH_HEADER = "x-tracereel-forwarded-by"
"""Collectors that a request has passed, to detect forwarding loops."""
RETRYABLE = frozenset({429, 502, 503, 504})
_MOST_READ = 64 * 1024
_REFUSED: dict[str, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
}


@dataclass(frozen=True, slots=True)
class Sent:
    """Accepted request; `refused` counts the records that the target rejected."""

    refused: int


@dataclass(frozen=True, slots=True)
class ForwardRefused:
    """Permanently refused request; retries would not help."""

    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """Retryable failure; `seconds` is the delay requested by the target."""

    why: str
    seconds: float = 0.0


class ForwardConnection:
    """Persistent connection to the target, for use by one thread."""

    def __init__(self, target: Target, *, seconds: float) -> None:
        self._target = target
        self._seconds = seconds
        self._open: http.client.HTTPConnection | None = None

    def post(self, signal: str, body: bytes, *, passed: str) -> Sent | ForwardRefused | Later:
        """Send a request. Redirects are not followed, because headers may contain a key."""
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
            pause = retry_after_seconds(answer.headers.get("retry-after"), now=time.time())
            return Later(why, pause or 0.0)
        return ForwardRefused(why)

    def close(self) -> None:
        """Close the connection."""
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


def _count_refused(signal: str, data: bytes) -> int:
    kind, field = _REFUSED[signal]
    answer = kind()
    try:
        answer.ParseFromString(data)
        return int(getattr(answer.partial_success, field))
    except DecodeError:
        return 0
