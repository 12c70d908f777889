"""Spans of other instrumentations on their way out: encoded, cleaned, posted to `/v1/traces`."""

import gzip
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tracereel import _native
from tracereel._connection import TIMEOUT, TROUBLE, Connection
from tracereel._privacy import Privacy
from tracereel._secrets import is_sensitive_key, mark
from tracereel._sender import COMPRESS_ABOVE, UnavailableError
from tracereel.config import Config

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PATH: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"
TIMEOUT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
"""In seconds, as OpenTelemetry for Python reads them."""
CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "input.value",
    "output.value",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompts",
    "llm.completions",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "exception.message",
    "exception.stacktrace",
)
"""How attributes begin that hold what was asked and answered."""

_RETRYABLE: Final = (408, 429, 502, 503, 504)
_TOO_LARGE: Final = 413
_UNNAMED: Final = "unknown_service"
_loading: Final = _native.RLock()
# The encoder is imported by the exporting thread. A fork in the middle of that would leave a child
# that can never import it: the fork waits.
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


class RefusedError(Exception):
    """The collector will not take these spans, now or later."""

    def __init__(self, reason: str, *, too_large: bool = False) -> None:
        super().__init__(reason)
        self.too_large = too_large


def timeout_from_environment() -> float:
    """Seconds that one request may take."""
    for name in TIMEOUT_VARIABLES:
        try:
            seconds = float(os.environ.get(name, ""))
        except ValueError:
            continue
        if 0.0 < seconds <= 3600.0:
            return seconds
    return TIMEOUT


class SpanEncoder:
    """Makes a request of spans, without what the rules of privacy hide."""

    def __init__(self, privacy: Privacy, service: str | None) -> None:
        self._privacy = privacy
        self._service = service

    def encode(self, spans: "Sequence[ReadableSpan]") -> bytes:
        """The bytes of an OTLP request."""
        with _loading:
            from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        request = encode_spans(spans)
        for resource_spans in request.resource_spans:
            self._name(resource_spans.resource.attributes)
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    self._clean(span)
        return bytes(request.SerializeToString())

    def _name(self, attributes: Iterable[Any]) -> None:
        """A program that has told only us its name."""
        for attribute in attributes:
            unnamed = attribute.value.string_value.startswith(_UNNAMED)
            if attribute.key == "service.name" and unnamed and self._service is not None:
                attribute.value.string_value = self._service

    def _clean(self, span: Any) -> None:
        span.name = self._privacy.text(span.name)
        self._clean_attributes(span.attributes)
        for event in span.events:
            self._clean_attributes(event.attributes)
        for link in span.links:
            self._clean_attributes(link.attributes)
        if span.status.message:
            message = span.status.message
            captures = self._privacy.captures
            span.status.message = (
                self._privacy.text(message) if captures else message.partition(":")[0]
            )

    def _clean_attributes(self, attributes: Any) -> None:
        if not self._privacy.captures:
            for place in range(len(attributes) - 1, -1, -1):
                if attributes[place].key.startswith(CONTENT):
                    del attributes[place]
        for attribute in attributes:
            key = attribute.key
            hide = self._privacy.hides_by_name and (
                is_sensitive_key(key) or is_sensitive_key(key.rpartition(".")[2])
            )
            self._clean_value(attribute.value, hide=hide)

    def _clean_value(self, value: Any, *, hide: bool) -> None:
        kind = value.WhichOneof("value")
        if kind == "string_value":
            text = value.string_value
            new = mark("field") if hide and text else self._privacy.text(text)
            if new is not text:
                value.string_value = new
        elif kind == "array_value":
            for each in value.array_value.values:
                self._clean_value(each, hide=hide)
        elif kind == "kvlist_value":
            for pair in value.kvlist_value.values:
                self._clean_value(pair.value, hide=hide or is_sensitive_key(pair.key))


class SpanSender:
    """Posts encoded spans; used by one thread at a time."""

    def __init__(self, config: Config) -> None:
        self._connection = Connection(config, timeout=timeout_from_environment())

    def post(self, body: bytes, *, timeout: float | None = None) -> int:
        """Send a request; how many of its spans the collector has refused.

        Raises:
            UnavailableError: not taken for a reason that may pass.
            RefusedError: not taken, and never will be.
        """
        headers = {"content-type": PROTOBUF}
        if self._connection.compresses and len(body) > COMPRESS_ABOVE:
            body = gzip.compress(body, 1, mtime=0)
            headers["content-encoding"] = "gzip"
        try:
            response = self._connection.post(PATH, body, headers, timeout=timeout)
        except TROUBLE as error:
            raise UnavailableError(
                f"{type(error).__name__}: {error}",
                no_connection=isinstance(error, ConnectionRefusedError),
                no_answer=True,
            ) from error
        status = response.status
        if status == 200 and response.content_type == PROTOBUF:
            return _refused_spans(response.body)
        if status == 200 or status in _RETRYABLE:
            reason = f"HTTP {status}" + (" that is not a collector's" if status == 200 else "")
            raise UnavailableError(reason, retry_after=response.retry_after)
        raise RefusedError(f"HTTP {status}", too_large=status == _TOO_LARGE)

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()


def _refused_spans(answer: bytes) -> int:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        refused = ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans
    except DecodeError:
        return 0
    return max(0, int(refused))
