"""Bounded in-memory queue and the thread that sends it to the target."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection
from tracereel._export.otlp import Attempt, judge
from tracereel_collector.config import Settings
from tracereel_collector.errors import ThrottledError
from tracereel_collector.model import Body, Kind
from tracereel_collector.otlp_out.forward.own_spans import MARK, request_of
from tracereel_collector.otlp_out.forward.target import (
    SIGNALS,
    Target,
    forward_target,
    parse_signals,
)
from tracereel_collector.runtime.tenant_shares import SharePolicy, TenantShares
from tracereel_collector.telemetry import ForwardMetrics, name_thread

log = structlog.get_logger(__name__)

FIRST_BACKOFF, LAST_BACKOFF = 0.25, 30.0
MOST_HOPS = 8
PATH_HEADER = "x-tracereel-forwarded-by"
"""Collectors that a request has passed, to detect forwarding loops."""
_NAMES = {kind: name for name, kind in SIGNALS.items()}


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
        headers = {PATH_HEADER: passed}
        try:
            return judge(self._connection.request("POST", f"/v1/{signal}", body, headers))
        except HTTP_ERRORS as error:
            return Attempt("unavailable", f"{type(error).__name__}: {error}"[:200])


@dataclass(frozen=True, slots=True)
class _WaitingRequest:
    body: Body
    passed: str
    since: float


class Forwarder:
    """Non-blocking forwarder; records that cannot be queued or sent are counted and dropped.

    The queue is in memory only, because the durable queue has the same records on disk.
    """

    def __init__(
        self,
        target: Target,
        settings: Settings,
        *,
        own_id: str,
        metrics: ForwardMetrics,
        shares: SharePolicy,
    ) -> None:
        self._connection = ForwardConnection(target, seconds=settings.forward_seconds)
        self._request_seconds = settings.forward_seconds
        self._age_seconds = settings.forward_age_seconds
        self._signals = parse_signals(settings.forward_signals)
        self._with_events = settings.forward_events == "on" and "traces" in self._signals
        self._own_id = own_id
        self._metrics = metrics
        self._waiting: deque[_WaitingRequest] = deque()
        self._bytes = TenantShares("forward_bytes", settings.forward_queue_bytes, shares)
        self._changed = threading.Condition()
        self._stop_at: float | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    def start(self) -> None:
        """Start the sending thread."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Send queued requests until the timeout, without waiting for an unreachable target."""
        with self._changed:
            self._stop_at = time.monotonic() + timeout
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout + self._request_seconds)
        self._connection.close()

    def offer(self, body: Body, passed: str) -> None:
        """Queue a body that is durable; `passed` lists the collectors it came through."""
        if not self._wanted(body):
            return
        hops = [each for each in passed.split(",") if each]
        if self._own_id in hops or len(hops) >= MOST_HOPS:
            self._drop(body.kind, body.records, "loop")
            return
        path = ",".join([*hops, self._own_id])
        with self._changed:
            full = self._stop_at is not None
            if not full:
                try:
                    self._bytes.take(body.tenant, len(body.data))
                except ThrottledError:
                    full = True
            if not full:
                self._waiting.append(_WaitingRequest(body, path, time.monotonic()))
                self._metrics.queue_bytes.set(self._bytes.used)
                self._changed.notify()
        if full:
            self._drop(body.kind, body.records, "full")

    def _wanted(self, body: Body) -> bool:
        if body.kind is Kind.EVENTS:
            return self._with_events and MARK in body.data
        return _NAMES.get(body.kind) in self._signals

    def _run(self) -> None:
        name_thread("forward")
        while (one := self._next()) is not None:
            try:
                self._send(one)
            except Exception as error:
                log.exception("forward_failed", reason=str(error))
                self._drop(one.body.kind, one.body.records, "failed")
            with self._changed:
                self._waiting.popleft()
                self._bytes.give_back(one.body.tenant, len(one.body.data))
                self._metrics.queue_bytes.set(self._bytes.used)

    def _next(self) -> _WaitingRequest | None:
        """Return the oldest request; `None` if the queue is empty and the forwarder is stopping."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stop_at is not None)
            return self._waiting[0] if self._waiting else None

    def _send(self, one: _WaitingRequest) -> None:
        kind, data, records = one.body.kind, one.body.data, one.body.records
        if kind is Kind.EVENTS:
            kind = Kind.SPANS
            data, records = request_of(data.split(b"\n"))
            if not records:
                return
        backoff = FIRST_BACKOFF
        while True:
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                self._drop(kind, records, "stopped")
                return
            attempt = self._connection.post(_NAMES[kind], data, passed=one.passed)
            if attempt.outcome != "unavailable":
                break
            self._warn(attempt.reason)
            self._metrics.retries.labels(kind).inc()
            wait = max(attempt.retry_after or 0.0, backoff * random.uniform(0.5, 1.0))  # noqa: S311
            backoff = min(LAST_BACKOFF, backoff * 2)
            if time.monotonic() + wait > one.since + self._age_seconds:
                self._drop(kind, records, "expired")
                return
            if self._sleep(wait):
                self._drop(kind, records, "stopped")
                return
        if attempt.outcome == "refused":
            self._warn(attempt.reason)
            self._drop(kind, records, "refused")
            return
        self._failing = False
        refused = min(records, attempt.rejected)
        self._metrics.sent.labels(kind).inc(records - refused)
        if refused:
            self._drop(kind, refused, "partly_refused")

    def _sleep(self, seconds: float) -> bool:
        """Wait; return whether the forwarder is stopping."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stop_at is not None, seconds)

    def _warn(self, why: str) -> None:
        """Log the first failure, not every attempt."""
        if not self._failing:
            self._failing = True
            log.warning("forward_target_fails", reason=why)

    def _drop(self, kind: Kind, records: int, reason: str) -> None:
        self._metrics.dropped.labels(kind, reason).inc(records)


def new_forwarder(
    settings: Settings, registry: CollectorRegistry, *, own_id: str, shares: SharePolicy
) -> Forwarder | None:
    """Return a forwarder to the configured endpoint; None if forwarding is off."""
    target = forward_target(settings)
    if target is None:
        return None
    metrics = ForwardMetrics.register(registry)
    return Forwarder(target, settings, own_id=own_id, metrics=metrics, shares=shares)
