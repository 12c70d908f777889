"""A bounded queue of own spans and log lines, and the thread that sends them elsewhere."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from tracereel_collector.forward.post import Connection, Later, Refused
from tracereel_collector.forward.target import Target
from tracereel_collector.observe.records import OwnLine, OwnSpan, lines_request, spans_request
from tracereel_collector.telemetry import SELF_HEADER, SelfMetrics, name_thread

log = structlog.get_logger(__name__)

AT_ONCE = 512
COLLECT_SECONDS = 1.0
REQUEST_SECONDS = 10.0
FIRST_BACKOFF, LAST_BACKOFF = 0.5, 30.0
TRIES = 5
"""Then what is in hand is dropped: nobody's data depends on it."""


class SelfExporter:
    """Takes without ever waiting; what cannot be kept or sent is counted and let go."""

    def __init__(
        self,
        target: Target,
        *,
        own_id: str,
        resource: Mapping[str, Any],
        max_items: int,
        metrics: SelfMetrics,
    ) -> None:
        named = replace(target, headers={**target.headers, SELF_HEADER: own_id})
        self._connection = Connection(named, seconds=REQUEST_SECONDS)
        self._resource = resource
        self._max_items = max_items
        self._metrics = metrics
        self._waiting: deque[OwnSpan | OwnLine] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="self-export", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, *, timeout: float) -> None:
        """Send what waits, if that is taken at once; safe without start and safe to call twice."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._connection.close()

    def offer(self, one: OwnSpan | OwnLine) -> None:
        """Something to be sent; what this thread itself says is not, or it would never end."""
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
            for signal in ("traces", "logs"):
                mine = [one for one in some if _signal(one) == signal]
                if mine:
                    try:
                        self._send(signal, mine)
                    except Exception as error:
                        log.exception("self_export_failed", reason=str(error))
                        self._metrics.dropped.labels(signal, "failed").inc(len(mine))

    def _next(self) -> list[OwnSpan | OwnLine]:
        """What has gathered within a second; nothing when there is nothing and the end has come."""
        with self._changed:
            while True:
                if self._waiting and not self._stopping.is_set():
                    return self._taken()
                if self._stopping.is_set():
                    return self._taken()
                self._changed.wait_for(
                    lambda: len(self._waiting) >= AT_ONCE or self._stopping.is_set(),
                    COLLECT_SECONDS,
                )

    def _taken(self) -> list[OwnSpan | OwnLine]:
        return [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]

    def _send(self, signal: str, some: list[OwnSpan | OwnLine]) -> None:
        if signal == "traces":
            spans = [one for one in some if isinstance(one, OwnSpan)]
            body = spans_request(spans, self._resource)
        else:
            lines = [one for one in some if isinstance(one, OwnLine)]
            body = lines_request(lines, self._resource)
        backoff = FIRST_BACKOFF
        for _ in range(TRIES):
            result = self._connection.post(signal, body, passed="")
            if not isinstance(result, Later):
                break
            self._tell(result.why)
            if self._stopping.wait(max(backoff, min(result.seconds, LAST_BACKOFF))):
                break
            backoff = min(LAST_BACKOFF, backoff * 2)
        if isinstance(result, Later):
            self._metrics.dropped.labels(signal, "unreachable").inc(len(some))
        elif isinstance(result, Refused):
            self._tell(result.why)
            self._metrics.dropped.labels(signal, "refused").inc(len(some))
        else:
            self._failing = False
            self._metrics.sent.labels(signal).inc(len(some))

    def _tell(self, why: str) -> None:
        """One line when it begins to fail, not one per try."""
        if not self._failing:
            self._failing = True
            log.warning("self_target_fails", reason=why, at=f"{time.time():.0f}")


def _signal(one: OwnSpan | OwnLine) -> str:
    return "traces" if isinstance(one, OwnSpan) else "logs"
