"""HTTP request to the target and its outcome."""

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection
from tracereel._export.otlp import Attempt
from tracereel_collector.otlp_out.forward.target import Target

PATH_HEADER = "x-tracereel-forwarded-by"
"""Collectors that a request has passed, to detect forwarding loops."""
RETRYABLE = frozenset({429, 502, 503, 504})


class ForwardConnection:
    """Persistent connection to the target, for use by one thread."""

    def __init__(self, target: Target, *, seconds: float) -> None:
        self._connection = HttpConnection(
            target.url,
            headers={**target.headers, "content-type": "application/x-protobuf"},
            timeout=seconds,
            proxies=False,
        )
        self.close = self._connection.close

    def post(self, signal: str, body: bytes, *, passed: str) -> Attempt:
        """Send a request once."""
        try:
            response = self._connection.request(
                "POST", f"/v1/{signal}", body, {PATH_HEADER: passed}
            )
        except HTTP_ERRORS as error:
            return Attempt("unavailable", f"{type(error).__name__}: {error}"[:200])
        if 200 <= response.status < 300:
            return Attempt("taken", rejected=_rejected(response.body))
        reason = f"HTTP {response.status}"
        if response.status in RETRYABLE:
            return Attempt("unavailable", reason, retry_after=response.retry_after)
        return Attempt("refused", reason)


def _rejected(body: bytes) -> int:
    """Return the number of rejected records, a field that all OTLP signals share."""
    try:
        found = ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans
    except DecodeError:
        return 0
    return max(0, int(found))
