"""Bounded queue and export thread for spans of other instrumentations.

Own spans are skipped because the collector derives them from events, except for those to which the
program added events. A span processor cannot be
removed from a provider, so each provider gets one small permanent processor (`SpanTap`) that
forwards to the active recorder.

Offering a span never blocks on delivery, nor does a fork or a signal handler.
"""

import functools
import logging
import os
import time
from _queue import Empty, SimpleQueue
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.environment_variables import OTEL_TRACES_SAMPLER
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind
from opentelemetry.util.types import Attributes

from tracereel import semconv
from tracereel._export.backoff import MIN_BACKOFF, backoff
from tracereel._export.span_redaction import SpanCleaner
from tracereel._redact.event_redaction import Privacy
from tracereel._runtime import gevent_compat, guard
from tracereel._runtime.compat import uninstrumented_context
from tracereel.config import Config

if TYPE_CHECKING:
    from tracereel._export.otlp import Attempt, OtlpExport

MAX_SPANS: Final = 8_192
MAX_BYTES: Final = 16 * 1024 * 1024
"""Limits of the queue in spans and (approximate) bytes; spans beyond are dropped and counted."""
BATCH_SPANS: Final = 512
BATCH_BYTES: Final = 1024 * 1024
LINGER: Final = 1.0
"""Seconds a first span waits for more spans."""
RETRY_SECONDS: Final = 60.0
"""Seconds until retries of a batch end, except for delays that the collector requests."""
MAX_ATTEMPTS: Final = 30
SPAN_BYTES: Final = 512
"""Estimated size of a span without its text attributes."""
JUST_NOW: Final = 1.0

QUEUE_FULL: Final = "queue_full"
REFUSED: Final = "refused"
NOT_ENCODED: Final = "not_encoded"
SHUTDOWN: Final = "shutdown"
_TROUBLE: Final = "spans:trouble"
_KNOWN_BY: Final = {
    "decision_recorded": "decision_id",
    "retry_attempted": "reason",
    "fallback_triggered": "primary_agent",
}
"""Attributes that the SDK's own span events always have; the collector recognises them by these too."""

_loading: Final = gevent_compat.RLock()
# The exporting thread imports the exporter. A fork during the import would leave a child that can
# never import it, so forks wait for this lock.
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


class SpanCounts(Protocol):
    """Receiver of span counts."""

    def count_spans(self, delivered: int, dropped: Mapping[str, int]) -> None:
        """Count delivered spans, and dropped spans by reason."""


class OtherSpans:
    """Span queue and export thread of one recorder."""

    def __init__(
        self,
        config: Config,
        privacy: Privacy,
        counts: SpanCounts,
        *,
        max_spans: int = MAX_SPANS,
        max_bytes: int = MAX_BYTES,
        linger: float = LINGER,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.exit_timeout = config.exit_timeout
        self._config = config
        self._cleaner = SpanCleaner(privacy, config.service)
        self._export: OtlpExport[ReadableSpan] | None = None
        self._counts = counts
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._linger = linger
        self._retry_seconds = retry_seconds
        # Re-entrant: a signal handler may end a span while its thread holds the lock.
        self._progress = gevent_compat.condition()
        self._waiting: deque[tuple[ReadableSpan, int]] = deque()
        self._waiting_bytes = 0
        self._offered = 0
        self._settled = 0
        self._lost = 0
        self._full = 0
        self._unreached = 0
        self._hurry = False
        self._closed = False
        # SimpleQueue.put is re-entrant, so it is safe in signal handlers; items have no meaning.
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread: gevent_compat.Thread | None = None
        self._waited = (0.0, 0.0)

    def offer(self, span: ReadableSpan) -> None:
        """Queue an ended span, or count it as dropped if the queue is full."""
        size = _rough_size(span)
        with self._progress:
            if self._closed:
                return
            if (
                len(self._waiting) >= self._max_spans
                or self._waiting_bytes + size > self._max_bytes
            ):
                self._full += 1
                return
            self._waiting.append((span, size))
            self._waiting_bytes += size
            self._offered += 1
            wakes = len(self._waiting) in (1, BATCH_SPANS)
            if self._thread is None:
                self._start()
        if wakes:
            self._wake.put(None)

    def flush(self, timeout: float, *, at_exit: bool = False) -> bool:
        """Wait until all spans offered so far are settled; return whether all were delivered.

        At exit, return early if the collector is unreachable.
        """
        deadline = time.monotonic() + timeout
        with self._progress:
            target, lost, unreached = self._offered, self._lost, self._unreached
            if self._settled < target:
                self._hurry = True
                self._wake.put(None)
            while self._settled < target:
                left = deadline - time.monotonic()
                gone = self._thread is None or not self._thread.is_alive()
                if left <= 0 or gone or (at_exit and self._unreached > unreached):
                    return False
                self._progress.wait(left)
            return self._lost == lost

    def shut_down(self) -> None:
        """Flush within the exit timeout when the provider shuts down."""
        started = time.monotonic()
        self.flush(self.exit_timeout, at_exit=True)
        self._waited = (time.monotonic(), time.monotonic() - started)

    @property
    def just_waited(self) -> float:
        """Seconds that a provider shutdown just took; they count towards the exit timeout."""
        ended, seconds = self._waited
        return seconds if time.monotonic() - ended < JUST_NOW else 0.0

    def disown(self) -> None:
        """Stop receiving spans; safe in a forked child."""
        for tap in list(_taps.values()):
            if tap.out is self:
                tap.out = None

    def close(self, timeout: float) -> None:
        """Stop the thread; drop and count spans that are not delivered."""
        self.disown()
        with self._progress:
            self._closed = True
            left = len(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            self._settle(0, {SHUTDOWN: left})
            self._count_full()
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join(max(timeout, 0.0))

    def _start(self) -> None:
        self._thread = gevent_compat.thread(self._run, name="tracereel-spans")
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down: close() drops the queue
            self._thread = None

    def _run(self) -> None:
        otel_context.attach(uninstrumented_context())
        while not self._closed:
            self._gather()
            try:
                if batch := self._take():
                    self._deliver(batch)
            except Exception as error:  # noqa: BLE001 - the thread must survive internal errors
                _survive(error)
        if self._export is not None:
            self._export.close()

    def _gather(self) -> None:
        """Sleep until there is a span, then wait for more of them."""
        while not self._waiting and not self._closed:
            self._wake.get()
        deadline = time.monotonic() + self._linger
        while not (self._hurry or self._closed or len(self._waiting) >= BATCH_SPANS):
            try:
                self._wake.get(timeout=max(deadline - time.monotonic(), 0.0))
            except Empty:
                return

    def _take(self) -> list[ReadableSpan]:
        batch: list[ReadableSpan] = []
        size = 0
        with self._progress:
            while self._waiting and len(batch) < BATCH_SPANS and size < BATCH_BYTES:
                span, span_size = self._waiting.popleft()
                batch.append(span)
                size += span_size
            self._waiting_bytes -= size
            if not self._waiting:
                self._hurry = False
        self._count_full()
        return batch

    def _count_full(self) -> None:
        """Count spans dropped because the queue was full; done here to keep `offer` cheap."""
        with self._progress:
            full, self._full = self._full, 0
        if full:
            self._counts.count_spans(0, {QUEUE_FULL: full})
            guard.warn_once(
                "spans:full", "tracereel: spans of other instrumentations are dropped: too many"
            )

    def _deliver(self, batch: list[ReadableSpan]) -> None:
        """Send spans; split batches that are too large or invalid, drop failures."""
        parts = [self._cleaned(batch)]
        while parts:
            if not (part := parts.pop()):
                continue
            middle = len(part) // 2
            attempt = self._send(part)
            if attempt.outcome == "taken":
                guard.forget_warning(_TROUBLE)
                refused = min(attempt.rejected, len(part))
                self._settle(len(part) - refused, {REFUSED: refused})
            elif attempt.splittable and middle:
                parts += [part[middle:], part[:middle]]
            else:
                self._give_up(len(part), attempt.outcome, attempt.reason)

    def _cleaned(self, batch: list[ReadableSpan]) -> list[ReadableSpan]:
        cleaned = []
        for span in batch:
            try:
                cleaned.append(self._cleaner.clean(span))
            except Exception as error:  # noqa: BLE001 - spans of other libraries may hold anything
                self._give_up(1, NOT_ENCODED, repr(error))
        return cleaned

    def _send(self, part: list[ReadableSpan]) -> "Attempt":
        """Export a batch with retries and return the last outcome."""
        deadline = time.monotonic() + self._retry_seconds
        failures = 0
        for _ in range(MAX_ATTEMPTS):
            attempt = self._attempt(part)
            if attempt.outcome != "unavailable":
                break
            failures += 1
            with self._progress:
                self._unreached += attempt.no_connection
                self._progress.notify_all()
            pause = backoff(failures, attempt.retry_after)
            late = attempt.retry_after is None and time.monotonic() + pause > deadline
            if self._closed or late:
                break
            if self._pause(pause):
                failures = 0
        return attempt

    def _attempt(self, part: list[ReadableSpan]) -> "Attempt":
        with _loading:
            from tracereel._export.otlp import Attempt, span_export
        if self._export is None:
            try:
                self._export = span_export(self._config)
            except OSError as error:
                return Attempt("unavailable", f"{type(error).__name__}: {error}")
        return self._export.send(part)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; return True if a flush cut the pause short."""
        deadline = time.monotonic() + seconds
        while not (self._closed or self._hurry):
            try:
                self._wake.get(timeout=max(deadline - time.monotonic(), 0.0))
            except Empty:
                return False
        hurried, self._hurry = self._hurry, False
        if hurried:
            _rest(min(seconds, MIN_BACKOFF / 2))
        return hurried

    def _give_up(self, spans: int, reason: str, why: str) -> None:
        guard.warn_once(
            _TROUBLE, "tracereel: spans of other instrumentations are dropped (%s): %s", reason, why
        )
        self._settle(0, {reason: spans})

    def _settle(self, delivered: int, dropped: Mapping[str, int]) -> None:
        lost = sum(dropped.values())
        if delivered + lost:
            self._counts.count_spans(delivered, dropped)
        with self._progress:
            self._settled += delivered + lost
            self._lost += lost
            self._progress.notify_all()


class SpanTap(SpanProcessor):
    """Permanent span processor of a provider; forwards ended spans to the active recorder."""

    def __init__(self) -> None:
        self.out: OtherSpans | None = None

    def on_end(self, span: ReadableSpan) -> None:
        out = self.out
        if out is None:
            return
        scope = span.instrumentation_scope
        if scope is not None and scope.name == semconv.SCOPE and not _is_marked(span):
            return
        ids = span.context
        if ids is not None and ids.trace_flags.sampled:
            with guard.Guard("other_spans"):
                out.offer(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        out = self.out
        return out is None or out.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        out, self.out = self.out, None
        if out is not None:
            with guard.Guard("other_spans"):
                out.shut_down()


def _is_marked(span: ReadableSpan) -> bool:
    """Return whether the program added events to a span of the SDK."""
    return any(
        event.name != "exception" and _KNOWN_BY.get(event.name) not in (event.attributes or {})
        for event in span.events
    )


def own_span(
    *,
    name: str,
    kind: SpanKind,
    context: SpanContext,
    parent: SpanContext | None,
    start_ns: int,
    end_ns: int,
    marks: Iterable[tuple[str, Attributes, int]],
) -> ReadableSpan:
    """Return a span of the SDK with the events that the program added, for export."""
    return ReadableSpan(
        name=name,
        context=context,
        parent=parent,
        resource=_resource(),
        events=[Event(*mark) for mark in marks],
        kind=kind,
        start_time=start_ns,
        end_time=end_ns,
        instrumentation_scope=InstrumentationScope(semconv.SCOPE),
    )


@functools.cache
def _resource() -> Resource:
    return Resource.create()


_taps: Final[WeakKeyDictionary[object, SpanTap]] = WeakKeyDictionary()
_attaching: Final = gevent_compat.RLock()
os.register_at_fork(
    before=_attaching.acquire, after_in_parent=_attaching.release, after_in_child=_attaching.release
)


def attach(provider: object, out: OtherSpans) -> None:
    """Forward the spans of a provider to this recorder, if it accepts span processors."""
    add = getattr(provider, "add_span_processor", None)
    if add is None:
        return
    with _attaching:
        tap = _taps.get(provider)
        if tap is None:
            tap = _taps[provider] = SpanTap()
            add(tap)
        tap.out = out


class DefaultProvider(TracerProvider):
    """Tracer provider for programs that have none."""

    def __init__(self, resource: Resource) -> None:
        self.wants_own_spans = OTEL_TRACES_SAMPLER in os.environ
        """Whether the SDK's own spans matter: for another processor or sampler than ours."""
        super().__init__(resource=resource)

    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        if not isinstance(span_processor, SpanTap):
            self.wants_own_spans = True
        super().add_span_processor(span_processor)


def set_global_provider(service: str | None) -> None:
    """Set a global tracer provider unless there is one."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        guard.warn_once(
            "provider", "tracereel: there is a global tracer provider already; it is used as it is"
        )
        return
    resource = Resource.create({"service.name": service} if service else None)
    trace.set_tracer_provider(DefaultProvider(resource))


def _rest(seconds: float) -> None:
    """Sleep with a native primitive that gevent does not patch."""
    try:
        SimpleQueue[None]().get(timeout=seconds)
    except Empty:
        return


def _rough_size(span: ReadableSpan) -> int:
    """Estimate the size of a span from its attributes."""
    size = SPAN_BYTES
    held = [span.attributes, *(event.attributes for event in span.events)]
    for attributes in held:
        for value in (attributes or {}).values():
            size += len(value) if isinstance(value, str | tuple) else 8
    return size


def _survive(error: Exception) -> None:
    try:
        guard.report("other_spans", error)
    except Exception:  # noqa: BLE001 - raised in tests only; the thread continues
        guard.log_message(
            logging.ERROR, "tracereel: internal error in the export of spans", with_traceback=True
        )
