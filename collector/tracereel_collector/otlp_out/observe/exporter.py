"""Bounded queue of own spans and log lines in front of the standard OTLP exporters.

The SDK's batch processors are not used: they do not count drops by reason or stop by a deadline.
"""

import threading
import time
from collections import deque
from typing import Any

import structlog
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan

from tracereel._export.collector_connection import collector_tls
from tracereel._export.http_client import HttpConnection
from tracereel._export.otlp import OtlpExport, OtlpSession
from tracereel_collector.otlp_out.forward.target import Target
from tracereel_collector.otlp_out.observe.compat import OTLPLogExporter, ReadableLogRecord
from tracereel_collector.telemetry import SELF_HEADER, SelfMetrics, name_thread

log = structlog.get_logger(__name__)

Record = ReadableSpan | ReadableLogRecord
AT_ONCE = 512
COLLECT_SECONDS = 1.0
REQUEST_SECONDS = 10.0
FIRST_BACKOFF, LAST_BACKOFF = 0.5, 30.0
ATTEMPTS = 5
"""Attempts before a batch is dropped; own telemetry is expendable."""
_EXPORTERS: dict[str, Any] = {"traces": OTLPSpanExporter, "logs": OTLPLogExporter}
_REASONS = {"unavailable": "unreachable", "refused": "refused", "not_encoded": "failed"}


class SelfExporter:
    """Non-blocking exporter; records that cannot be queued or sent are counted and dropped.

    Raises:
        OSError: a certificate named by the environment cannot be read.
    """

    def __init__(
        self, target: Target, *, own_id: str, max_items: int, metrics: SelfMetrics
    ) -> None:
        self._exports = {signal: _export(target, signal, own_id) for signal in _EXPORTERS}
        self._max_items = max_items
        self._metrics = metrics
        self._waiting: deque[Record] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="self-export", daemon=True)

    def start(self) -> None:
        """Start the sending thread."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Send queued records without retries, then stop. Safe without start and safe to call twice."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def offer(self, one: Record) -> None:
        """Queue a record. Records of the exporter's own thread are ignored to prevent a loop."""
        if threading.current_thread() is self._thread:
            return
        with self._changed:
            full = len(self._waiting) >= self._max_items or self._stopping.is_set()
            if not full:
                self._waiting.append(one)
                if len(self._waiting) == AT_ONCE:
                    self._changed.notify()
        if full:
            self._metrics.dropped.labels(_signal(one), "full").inc()

    def _run(self) -> None:
        name_thread("self-export")
        while some := self._next():
            for signal in self._exports:
                if mine := [one for one in some if _signal(one) == signal]:
                    self._send(signal, mine)
        for export in self._exports.values():
            export.close()

    def _next(self) -> list[Record]:
        """Return queued records, waiting up to a second for a full batch; empty when stopped."""
        with self._changed:
            while not self._waiting and not self._stopping.is_set():
                self._changed.wait_for(
                    lambda: len(self._waiting) >= AT_ONCE or self._stopping.is_set(),
                    COLLECT_SECONDS,
                )
            return [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]

    def _send(self, signal: str, some: list[Record]) -> None:
        backoff = FIRST_BACKOFF
        for _ in range(ATTEMPTS):
            attempt = self._exports[signal].send(some)
            if attempt.outcome != "unavailable":
                break
            self._warn(attempt.reason)
            if self._stopping.wait(max(backoff, min(attempt.retry_after or 0.0, LAST_BACKOFF))):
                break
            backoff = min(LAST_BACKOFF, backoff * 2)
        if attempt.outcome == "taken":
            self._failing = False
            refused = min(attempt.rejected, len(some))
            self._metrics.sent.labels(signal).inc(len(some) - refused)
            if refused:
                self._metrics.dropped.labels(signal, "refused").inc(refused)
        else:
            self._warn(attempt.reason)
            self._metrics.dropped.labels(signal, _REASONS[attempt.outcome]).inc(len(some))

    def _warn(self, why: str) -> None:
        """Log the first failure, not every attempt."""
        if not self._failing:
            self._failing = True
            log.warning("self_target_fails", reason=why, at=f"{time.time():.0f}")


def _export(target: Target, signal: str, own_id: str) -> OtlpExport[Any]:
    url = f"{target.url}/v1/{signal}"
    headers = {**target.headers, SELF_HEADER: own_id}
    if url.startswith("https:"):
        collector_tls()  # fail at startup if a certificate is unreadable, not at the first span
    session = OtlpSession(
        HttpConnection(url, headers=headers, timeout=REQUEST_SECONDS, tls=collector_tls)
    )
    exporter = _EXPORTERS[signal](
        url, timeout=REQUEST_SECONDS, compression=Compression.NoCompression, session=session
    )
    return OtlpExport(exporter, session)


def _signal(one: Record) -> str:
    return "traces" if isinstance(one, ReadableSpan) else "logs"
