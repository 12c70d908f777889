"""Spans that other instrumentations of this process end: kept within bounds, sent to the collector.

Ours are left out, the collector makes them from events. A provider cannot be rid of a processor, so
it gets a small one for good, the tap, and the tap is told where to: to the recorder in force.

Neither offering a span nor a fork, nor a signal handler in the middle of it, ever waits for delivery.
"""

import logging
import os
import time
from _queue import Empty, SimpleQueue
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from tracereel import _guard, _native
from tracereel._otlp import RefusedError, SpanEncoder, SpanSender
from tracereel._privacy import Privacy
from tracereel._retrying import MIN_BACKOFF, backoff
from tracereel._sender import UnavailableError
from tracereel._spans import SCOPE
from tracereel.config import Config

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SPANS: Final = 8_192
MAX_BYTES: Final = 16 * 1024 * 1024
"""What may wait, in spans and (roughly) in bytes; what comes then is dropped and counted."""
BATCH_SPANS: Final = 512
BATCH_BYTES: Final = 1024 * 1024
LINGER: Final = 1.0
"""Seconds a first span waits for company."""
RETRY_SECONDS: Final = 60.0
"""How long a batch is tried again before it is given up, but for pauses the collector asks for."""
MAX_ATTEMPTS: Final = 30
SPAN_BYTES: Final = 512
"""A span without its texts."""
JUST_NOW: Final = 1.0

QUEUE_FULL: Final = "queue_full"
UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
NOT_ENCODED: Final = "not_encoded"
SHUTDOWN: Final = "shutdown"
_TROUBLE: Final = "spans:trouble"


class SpanCounts(Protocol):
    """Who is told about the end of spans."""

    def count_spans(self, delivered: int, dropped: Mapping[str, int]) -> None:
        """Some were delivered, some dropped, by reason."""


class OtherSpans:
    """The queue and the thread of one recorder."""

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
        self._sender = SpanSender(config)
        self._encoder = SpanEncoder(privacy, config.service)
        self._counts = counts
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._linger = linger
        self._retry_seconds = retry_seconds
        # Re-entrant: a signal handler may end a span while its own thread is in here.
        self._progress = _native.condition()
        self._waiting: deque[tuple[ReadableSpan, int]] = deque()
        self._waiting_bytes = 0
        self._offered = 0
        self._settled = 0
        self._lost = 0
        self._full = 0
        self._unreached = 0
        self._hurry = False
        self._closed = False
        # A queue because its `put` may interrupt itself; what is in it means nothing.
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread: _native.Thread | None = None
        self._waited = (0.0, 0.0)

    def offer(self, span: ReadableSpan) -> None:
        """Take a span that has ended, or count that there is no room for it."""
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
        """Wait until what was offered so far is settled; whether all of it was delivered in time.

        At exit, a destination that cannot be reached is not waited for.
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
        """The provider ends: deliver what can be within the time that an exit may take."""
        started = time.monotonic()
        self.flush(self.exit_timeout, at_exit=True)
        self._waited = (time.monotonic(), time.monotonic() - started)

    @property
    def just_waited(self) -> float:
        """Seconds that the end of a provider took a moment ago: the same exit, the same limit."""
        ended, seconds = self._waited
        return seconds if time.monotonic() - ended < JUST_NOW else 0.0

    def disown(self) -> None:
        """Take no more spans; all that a forked child may do with what is its parent's."""
        for tap in list(_taps.values()):
            if tap.out is self:
                tap.out = None

    def close(self, timeout: float) -> None:
        """End the thread; what is not delivered by then is dropped and counted."""
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
        self._thread = _native.thread(self._run, name="tracereel-spans")
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is ending: what waits is dropped when we are closed
            self._thread = None

    def _run(self) -> None:
        quiet = otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)
        otel_context.attach(otel_context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, quiet))
        while not self._closed:
            self._gather()
            try:
                if batch := self._take():
                    self._deliver(batch)
            except Exception as error:  # noqa: BLE001 - the thread must outlive our own mistakes
                _survive(error)
        self._sender.close()

    def _gather(self) -> None:
        """Sleep until there is a span, then let it have company."""
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
        """Account for spans there was no room for: not where they end, that must cost nothing."""
        with self._progress:
            full, self._full = self._full, 0
        if full:
            self._counts.count_spans(0, {QUEUE_FULL: full})
            _guard.warn_once(
                "spans:full", "tracereel: spans of other instrumentations are dropped: too many"
            )

    def _deliver(self, batch: "Sequence[ReadableSpan]") -> None:
        """Send spans, in halves where they are too many or one is bad; the rest is dropped."""
        parts = [batch]
        while parts:
            part = parts.pop()
            middle = len(part) // 2
            try:
                body = self._encoder.encode(part)
            except Exception as error:  # noqa: BLE001 - what others put on a span is theirs
                if middle:
                    parts += [part[middle:], part[:middle]]
                else:
                    self._give_up(1, NOT_ENCODED, repr(error))
                continue
            try:
                refused = self._send(body)
            except UnavailableError as trouble:
                self._give_up(len(part), UNAVAILABLE, trouble.reason)
            except RefusedError as refusal:
                if refusal.too_large and middle:
                    parts += [part[middle:], part[:middle]]
                else:
                    self._give_up(len(part), REFUSED, str(refusal))
            else:
                _guard.forget_warning(_TROUBLE)
                refused = min(refused, len(part))
                self._settle(len(part) - refused, {REFUSED: refused})

    def _send(self, body: bytes) -> int:
        """Post a request, again and again for a while.

        Raises:
            UnavailableError: not taken in time.
            RefusedError: not taken, and never will be.
        """
        deadline = time.monotonic() + self._retry_seconds
        failures = 0
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._sender.post(body)
            except UnavailableError as trouble:
                failures += 1
                with self._progress:
                    self._unreached += trouble.no_connection
                    self._progress.notify_all()
                pause = backoff(failures, trouble.retry_after)
                late = trouble.retry_after is None and time.monotonic() + pause > deadline
                if self._closed or late or attempt == MAX_ATTEMPTS:
                    raise
                if self._pause(pause):
                    failures = 0
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; true when somebody waits for us, and it was a short pause."""
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
        _guard.warn_once(
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
    """What a provider holds for good: hands ended spans to the recorder in force."""

    def __init__(self) -> None:
        self.out: OtherSpans | None = None

    def on_end(self, span: ReadableSpan) -> None:
        out = self.out
        if out is None:
            return
        scope = span.instrumentation_scope
        if scope is not None and scope.name == SCOPE:
            return
        ids = span.context
        if ids is not None and ids.trace_flags.sampled:
            with _guard.Guard("other_spans"):
                out.offer(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        out = self.out
        return out is None or out.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        out, self.out = self.out, None
        if out is not None:
            with _guard.Guard("other_spans"):
                out.shut_down()


_taps: Final[WeakKeyDictionary[object, SpanTap]] = WeakKeyDictionary()
_attaching: Final = _native.RLock()
os.register_at_fork(
    before=_attaching.acquire, after_in_parent=_attaching.release, after_in_child=_attaching.release
)


def attach(provider: object, out: OtherSpans) -> None:
    """Have a provider hand its spans to this recorder, where it can."""
    add = getattr(provider, "add_span_processor", None)
    if add is None:
        return
    with _attaching:
        tap = _taps.get(provider)
        if tap is None:
            tap = _taps[provider] = SpanTap()
            add(tap)
        tap.out = out


def set_global_provider(service: str | None) -> None:
    """Give the program a tracer provider, unless it has one."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _guard.warn_once(
            "provider", "tracereel: there is a global tracer provider already; it is used as it is"
        )
        return
    resource = Resource.create({"service.name": service} if service else None)
    trace.set_tracer_provider(TracerProvider(resource=resource))


def _rest(seconds: float) -> None:
    """Sleep as threads do, also where the program's are greenlets."""
    try:
        SimpleQueue[None]().get(timeout=seconds)
    except Empty:
        return


def _rough_size(span: ReadableSpan) -> int:
    """About how much a span holds: its texts are what makes one large."""
    size = SPAN_BYTES
    held = [span.attributes, *(event.attributes for event in span.events)]
    for attributes in held:
        for value in (attributes or {}).values():
            size += len(value) if isinstance(value, str | tuple) else 8
    return size


def _survive(error: Exception) -> None:
    try:
        _guard.report("other_spans", error)
    except Exception:  # noqa: BLE001 - raised in our tests only; the thread goes on all the same
        _guard.say(
            logging.ERROR, "tracereel: internal error in the export of spans", with_traceback=True
        )
