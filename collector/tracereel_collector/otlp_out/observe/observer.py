"""Conversion of finished requests, batches and log lines into spans and log records."""

import random
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tracereel_collector.model import Batch
from tracereel_collector.otlp_out.observe.compat import LogRecord, ReadableLogRecord, SeverityNumber
from tracereel_collector.otlp_out.observe.exporter import SelfExporter
from tracereel_collector.telemetry import SELF_HEADER

Headers = Iterable[tuple[bytes, bytes]]
MAX_TEXT = 4096

_NAME = SELF_HEADER.encode()
_SCOPE = InstrumentationScope("tracereel.collector")
_IDS = RandomIdGenerator()
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_PARENTS = TraceContextTextMapPropagator()
_SEVERITIES = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}


class Observer:
    """Factory of spans and log records for the exporter."""

    def __init__(
        self,
        exporter: SelfExporter,
        *,
        own_id: str,
        resource: Resource,
        signals: frozenset[str],
        share: float,
    ) -> None:
        self._exporter = exporter
        self._own_id = own_id.encode()
        self._resource = resource
        self._signals = signals
        self._share = share

    def is_own(self, headers: Headers) -> bool:
        """Return whether a request is an export of this collector that was routed back."""
        return any(name == _NAME and value == self._own_id for name, value in headers)

    def request_done(
        self, *, method: str, route: str, status: int, seconds: float, headers: Headers
    ) -> None:
        """Record a span for a finished request."""
        if self._wanted() and not any(name == _NAME for name, _ in headers):
            self._offer_span(
                f"{method} {route}",
                seconds,
                {
                    "http.request.method": method,
                    "http.route": route,
                    "http.response.status_code": status,
                },
                kind=SpanKind.SERVER,
                failed=status >= 500 or status == 0,
                parent=_parent(headers),
            )

    def batch_done(self, batch: Batch, *, stored: int, seconds: float) -> None:
        """Record a span for a delivered batch."""
        if self._wanted():
            self._offer_span(
                f"deliver {batch.kind}",
                seconds,
                {
                    "tracereel.batch": batch.id,
                    "tracereel.kind": str(batch.kind),
                    "tracereel.records": batch.records,
                    "tracereel.records_stored": stored,
                    "tracereel.bytes": batch.size,
                },
                failed=stored < batch.records,
            )

    def said(self, line: Mapping[str, Any]) -> None:
        """Record a log line."""
        if "logs" not in self._signals:
            return
        rest = dict(line)
        event, level = rest.pop("event", ""), str(rest.pop("level", "info"))
        written = _unix_nano(rest.pop("timestamp", ""))
        record = LogRecord(
            timestamp=written,
            observed_timestamp=written,
            context=Context(),
            severity_text=level,
            severity_number=_SEVERITIES.get(level, SeverityNumber.UNSPECIFIED),
            body=_text(event),
            attributes={key: _value(value) for key, value in rest.items()},
        )
        self._exporter.offer(ReadableLogRecord(record, self._resource, _SCOPE))

    def _wanted(self) -> bool:
        return "traces" in self._signals and (
            self._share >= 1 or random.random() < self._share  # noqa: S311 - no secret
        )

    def _offer_span(
        self,
        name: str,
        seconds: float,
        attributes: Mapping[str, str | int],
        *,
        failed: bool,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: SpanContext | None = None,
    ) -> None:
        now = time.time_ns()
        trace_id = _IDS.generate_trace_id() if parent is None else parent.trace_id
        self._exporter.offer(
            ReadableSpan(
                name,
                SpanContext(trace_id, _IDS.generate_span_id(), False, _SAMPLED),
                parent,
                resource=self._resource,
                attributes=attributes,
                kind=kind,
                status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
                start_time=now - int(seconds * 1e9),
                end_time=now,
                instrumentation_scope=_SCOPE,
            )
        )


def _parent(headers: Headers) -> SpanContext | None:
    for name, value in headers:
        if name == b"traceparent":
            carrier = {"traceparent": value.decode("latin-1")}
            found = get_current_span(_PARENTS.extract(carrier, Context())).get_span_context()
            return found if found.is_valid else None
    return None


def _value(value: Any) -> str | bool | int | float:
    if isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return _text(value)


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()[:MAX_TEXT]


def _unix_nano(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e9)
    except ValueError:
        return time.time_ns()
