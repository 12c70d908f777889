"""A bounded queue in memory and the thread that empties it towards the target."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass

import structlog

from tracereel_collector.forward.own_spans import MARK, request_of
from tracereel_collector.forward.post import Connection, Later, Refused
from tracereel_collector.forward.target import SIGNALS, Target
from tracereel_collector.model import Kind
from tracereel_collector.telemetry import ForwardMetrics, name_thread

log = structlog.get_logger(__name__)

FIRST_BACKOFF, LAST_BACKOFF = 0.25, 30.0
MOST_HOPS = 8
_NAMES = {kind: name for name, kind in SIGNALS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLimits:
    """How much waits, for how long, and what goes on at all."""

    max_bytes: int
    request_seconds: float
    age_seconds: float
    signals: frozenset[str]
    own_spans: bool


@dataclass(frozen=True, slots=True)
class _Waiting:
    kind: Kind
    data: bytes
    records: int
    passed: str
    since: float


class Forwarder:
    """Takes bodies without ever waiting; what cannot be kept or sent is counted and let go.

    What waits is in memory only: it is a copy of what the queue has on disk, for somebody else.
    """

    def __init__(
        self, target: Target, limits: ForwardLimits, *, own_id: str, metrics: ForwardMetrics
    ) -> None:
        self._connection = Connection(target, seconds=limits.request_seconds)
        self._limits = limits
        self._own_id = own_id
        self._metrics = metrics
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._stop_at: float | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Send what can be sent within the time, without waiting for a target that is away."""
        with self._changed:
            self._stop_at = time.monotonic() + timeout
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout + self._limits.request_seconds)
        self._connection.close()

    def offer(self, kind: Kind, data: bytes, records: int, *, passed: str = "") -> None:
        """A body that was just made durable; `passed` names the collectors it came through."""
        if not self._wanted(kind, data):
            return
        hops = [each for each in passed.split(",") if each]
        if self._own_id in hops or len(hops) >= MOST_HOPS:
            self._drop(kind, records, "loop")
            return
        one = _Waiting(kind, data, records, ",".join([*hops, self._own_id]), time.monotonic())
        with self._changed:
            full = self._bytes + len(data) > self._limits.max_bytes or self._stop_at is not None
            if not full:
                self._waiting.append(one)
                self._bytes += len(data)
                self._metrics.queue_bytes.set(self._bytes)
                self._changed.notify()
        if full:
            self._drop(kind, records, "full")

    def _wanted(self, kind: Kind, data: bytes) -> bool:
        if kind is Kind.EVENTS:
            return self._limits.own_spans and "traces" in self._limits.signals and MARK in data
        return _NAMES.get(kind) in self._limits.signals

    def _run(self) -> None:
        name_thread("forward")
        while (one := self._next()) is not None:
            try:
                self._send(one)
            except Exception as error:
                log.exception("forward_failed", reason=str(error))
                self._drop(one.kind, one.records, "failed")
            with self._changed:
                self._waiting.popleft()
                self._bytes -= len(one.data)
                self._metrics.queue_bytes.set(self._bytes)

    def _next(self) -> _Waiting | None:
        """The oldest; None when there is none and the end has come."""
        with self._changed:
            while not self._waiting:
                if self._stop_at is not None:
                    return None
                self._changed.wait()
            return self._waiting[0]

    def _send(self, one: _Waiting) -> None:
        kind, data, records = one.kind, one.data, one.records
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
            result = self._connection.post(_NAMES[kind], data, passed=one.passed)
            if not isinstance(result, Later):
                break
            self._tell(result.why)
            self._metrics.retries.labels(kind).inc()
            wait = max(result.seconds, backoff * random.uniform(0.5, 1.0))  # noqa: S311
            backoff = min(LAST_BACKOFF, backoff * 2)
            if time.monotonic() + wait > one.since + self._limits.age_seconds:
                self._drop(kind, records, "expired")
                return
            if self._sleep(wait):
                self._drop(kind, records, "stopped")
                return
        if isinstance(result, Refused):
            self._tell(result.why)
            self._drop(kind, records, "refused")
            return
        self._failing = False
        refused = min(records, result.refused)
        self._metrics.sent.labels(kind).inc(records - refused)
        if refused:
            self._drop(kind, refused, "partly_refused")

    def _sleep(self, seconds: float) -> bool:
        """Wait; whether the end came meanwhile."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._stop_at is not None

    def _tell(self, why: str) -> None:
        """One line when it begins to fail, not one per try."""
        if not self._failing:
            self._failing = True
            log.warning("forward_target_fails", reason=why)

    def _drop(self, kind: Kind, records: int, reason: str) -> None:
        self._metrics.dropped.labels(kind, reason).inc(records)
