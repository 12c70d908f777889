"""Stock OTLP exporters with a session that sends once and reports the outcome.

The stock exporters retry by version-dependent rules, block, log each attempt and return a boolean.
The session stores the outcome and reports success to them, so that the caller's queue controls
retries, delays and drops.

Imported by the exporting thread only: `requests` alone doubles the SDK's import time.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan

from tracereel._export.collector_connection import CollectorConnection
from tracereel._export.http_client import HTTP_ERRORS, TIMEOUT, HttpConnection, HttpResponse
from tracereel.config import Config

TIMEOUT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
"""Timeout variables in seconds, as in OpenTelemetry for Python."""

_PROTOBUF: Final = "application/x-protobuf"
_RETRYABLE: Final = (408, 429, 502, 503, 504)
_TOO_LARGE: Final = 413
_PROTOCOL_HEADERS: Final = frozenset(
    {"content-encoding", "content-length", "content-type", "user-agent"}
)
_T = TypeVar("_T", contravariant=True)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Outcome of one export request."""

    outcome: Literal["taken", "unavailable", "refused", "not_encoded"]
    reason: str = ""
    rejected: int = 0
    """Records rejected from an accepted request."""
    retry_after: float | None = None
    no_connection: bool = False
    splittable: bool = False
    """Whether a smaller batch may succeed."""


class StockExporter(Protocol[_T]):
    """Methods used of `OTLPSpanExporter` and `OTLPLogExporter`."""

    def export(self, batch: Sequence[_T], /) -> object: ...
    def shutdown(self) -> None: ...


class OtlpSession(requests.Session):
    """Session that sends each request once with the SDK's HTTP client and stores the outcome."""

    def __init__(self, connection: HttpConnection, *, protobuf_only: bool = False) -> None:
        super().__init__()
        self.last: Attempt | None = None
        self._connection = connection
        self._protobuf_only = protobuf_only

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> requests.Response:
        """Send one request, store its outcome in `last` and return a success response."""
        del url  # fixed by the connection
        # Drop headers from `OTEL_EXPORTER_OTLP_HEADERS`: they may hold keys of other destinations.
        sent = {
            name.lower(): str(value)
            for name, value in {**self.headers, **(headers or {})}.items()
            if name.lower() in _PROTOCOL_HEADERS
        }
        try:
            response = self._connection.request(method, "", data, sent)
            self.last = judge(response, protobuf_only=self._protobuf_only)
        except HTTP_ERRORS as error:
            self.last = Attempt(
                "unavailable",
                f"{type(error).__name__}: {error}"[:200],
                no_connection=isinstance(error, ConnectionRefusedError),
            )
        settled = requests.Response()
        settled.status_code = requests.codes.ok
        return settled

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        super().close()


def judge(response: HttpResponse, *, protobuf_only: bool = False) -> Attempt:
    """Return the outcome of a request from its response."""
    status = response.status
    stranger = protobuf_only and response.content_type != _PROTOBUF
    if 200 <= status < 300 and not stranger:
        return Attempt("taken", rejected=_rejected(response.body))
    reason = f"HTTP {status}"
    if 200 <= status < 300 or status in _RETRYABLE:
        note = " that is not a collector's" if 200 <= status < 300 else ""
        return Attempt("unavailable", reason + note, retry_after=response.retry_after)
    return Attempt("refused", reason, splittable=status == _TOO_LARGE)


class OtlpExport(Generic[_T]):
    """Exporter with its session; used by one thread at a time."""

    def __init__(self, exporter: StockExporter[_T], session: OtlpSession) -> None:
        self._exporter = exporter
        self._session = session

    def send(self, batch: Sequence[_T]) -> Attempt:
        """Export a batch once and return the outcome."""
        self._session.last = None
        reason = "see the log of the exporter"
        try:
            self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - spans of other libraries may hold anything
            reason = repr(error)
        return self._session.last or Attempt("not_encoded", reason, splittable=True)

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def span_export(config: Config) -> OtlpExport[ReadableSpan]:
    """Create the span export for a configuration."""
    endpoint = f"{config.endpoint.rstrip('/')}/v1/traces"
    timeout = timeout_from_environment()
    connection = CollectorConnection(config, timeout=timeout, path="/v1/traces")
    session = OtlpSession(connection, protobuf_only=True)
    exporter = OTLPSpanExporter(
        endpoint,
        timeout=timeout,  # type: ignore[arg-type,unused-ignore]
        compression=Compression.NoCompression
        if connection.compression == "none"
        else Compression.Gzip,
        session=session,
    )
    return OtlpExport(exporter, session)


def timeout_from_environment() -> float:
    """Return the timeout of one request in seconds."""
    for name in TIMEOUT_VARIABLES:
        try:
            seconds = float(os.environ.get(name, ""))
        except ValueError:
            continue
        if 0.0 < seconds <= 3600.0:
            return seconds
    return TIMEOUT


def _rejected(answer: bytes) -> int:
    """Return the number of rejected records, a field that all OTLP signals share."""
    try:
        found = ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans
    except DecodeError:
        return 0
    return max(0, int(found))
