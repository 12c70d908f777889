"""Self-observation: finished requests, batches and log lines as spans and log records."""

import hashlib
import os
import random
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version
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
from prometheus_client import CollectorRegistry

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.model import Batch
from tracereel_collector.otlp_out.forward.target import (
    Target,
    check_not_ourselves,
    parse_signals,
    parse_target,
)
from tracereel_collector.otlp_out.observe.compat import LogRecord, ReadableLogRecord, SeverityNumber
from tracereel_collector.otlp_out.observe.exporter import SelfExporter
from tracereel_collector.telemetry import SELF_HEADER, SelfMetrics, tap_log_lines

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
    """Makes spans and log records for the exporter, which it starts and stops."""

    def __init__(
        self,
        exporter: SelfExporter,
        *,
        own_id: str,
        resource: Resource,
        signals: frozenset[str],
        share: float,
    ) -> None:
        self.exporter = exporter
        self._own_id = own_id.encode()
        self._resource = resource
        self._signals = signals
        self._share = share

    def start(self) -> None:
        """Start the exporter and capture log lines."""
        self.exporter.start()
        tap_log_lines(self.record_line)

    def stop(self, *, timeout: float) -> None:
        """Stop; queued records are sent if the target accepts them immediately."""
        tap_log_lines(None)
        self.exporter.stop(timeout=timeout)

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

    def batch_done(self, batch: Batch, stored: int, seconds: float) -> None:
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

    def record_line(self, line: Mapping[str, Any]) -> None:
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
        self.exporter.offer(ReadableLogRecord(record, self._resource, _SCOPE))

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
        self.exporter.offer(
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


def self_observation(settings: Settings, registry: CollectorRegistry) -> Observer | None:
    """Return an observer, or None if it is off; raise StartupError for a bad target."""
    target, signals = self_target(settings)
    if target is None:
        return None
    own_id = own_id_of(settings)
    metrics = SelfMetrics.register(registry)
    try:
        exporter = SelfExporter(
            target, own_id=own_id, max_items=settings.self_queue, metrics=metrics
        )
    except OSError as error:
        raise StartupError(
            f"TRACEREEL_SELF_TO: certificates of the environment cannot be read: {error}",
            hint="see OTEL_EXPORTER_OTLP_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        ) from error
    resource = Resource(
        {
            "service.name": "tracereel-collector",
            "service.version": version("tracereel"),
            "service.instance.id": own_id,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
    )
    return Observer(
        exporter, own_id=own_id, resource=resource, signals=signals, share=settings.self_share
    )


def self_target(settings: Settings) -> tuple[Target | None, frozenset[str]]:
    """Return target (None if off) and signals; raise StartupError for a bad target."""
    signals = parse_signals(
        settings.self_signals, known=("traces", "logs"), setting="TRACEREEL_SELF"
    )
    if not settings.self_to:
        return None, signals
    target = parse_target(settings.self_to, settings.self_headers, setting="TRACEREEL_SELF")
    for port in (settings.port, settings.grpc_port):
        check_not_ourselves(target, host=settings.host, port=port, setting="TRACEREEL_SELF")
    return target, signals


def own_id_of(settings: Settings) -> str:
    """Return an id that is shared by all workers and stable across restarts."""
    place = f"{socket.gethostname()}:{settings.data_dir}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]
