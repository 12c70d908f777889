"""Trace sampling: record a share of all traces, and every trace with a problem.

A hash of the trace id decides, so that all processes decide alike. Events of other traces are
encoded and held back before they are numbered. A failure, retry, fallback or high cost releases them
in order, and all later events of the trace pass. They are dropped and counted when the last open run
of the trace ends without a problem. Held events are limited per trace and in total; the oldest are
dropped first.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel import semconv
from tracereel._export.trace_state import TraceState
from tracereel._redact import values
from tracereel._runtime import gevent_compat

SAMPLED_OUT: Final = "sampled_out"
MAX_TRACE_EVENTS: Final = 1_000
MAX_TRACE_BYTES: Final = 8 * 1024 * 1024
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_TRACES: Final = 4_096
MAX_KEPT: Final = 16_384
"""Maximum number of kept traces that are remembered; the oldest are forgotten."""

Store = Callable[[dict[str, Any], TraceState | None, bool | None], object]
"""Writes an event: event, trace, whether it closes the run (None: unchanged)."""
Drop = Callable[[str], None]

_OPENS: Final = (semconv.EXECUTION_STARTED, semconv.PIPELINE_STARTED)
_CLOSES: Final = (
    *(semconv.EXECUTION_COMPLETED, semconv.EXECUTION_FAILED, semconv.EXECUTION_CANCELLED),
    semconv.PIPELINE_COMPLETED,
)
_TROUBLE: Final = (
    semconv.EXECUTION_FAILED,
    semconv.RETRY_ATTEMPTED,
    semconv.FALLBACK_TRIGGERED,
)
_SPAN: Final = 2**64


class Held(values.EncodedEvent):
    """Encoded event that is held back, with the arguments of `Store`."""

    __slots__ = ("closes_run", "trace")

    def __init__(self, line: values.Line, trace: TraceState, *, closes_run: bool) -> None:
        super().__init__(line)
        self.trace = trace
        self.closes_run = closes_run


@dataclass(slots=True)
class _HeldEvents:
    """Held events and state of a trace that was not sampled."""

    events: deque[Held] = field(default_factory=deque)
    size: int = 0
    open: set[str] = field(default_factory=set)
    more_open: int = 0
    """Number of open runs beyond those in `open`."""
    cost: float = 0.0


class Sampler:
    """Sampling decisions of one recorder, which provides `store` and `drop`."""

    def __init__(
        self,
        rate: float,
        *,
        keep_cost_usd: float,
        store: Store,
        drop: Drop,
        encode: Callable[[dict[str, Any]], values.Line] = values.encode_line,
        max_trace_events: int = MAX_TRACE_EVENTS,
        max_trace_bytes: int = MAX_TRACE_BYTES,
        max_bytes: int = MAX_BYTES,
        max_traces: int = MAX_TRACES,
        max_kept: int = MAX_KEPT,
    ) -> None:
        self._threshold = int(rate * _SPAN)
        self._keep_cost = keep_cost_usd
        self._store = store
        self._drop = drop
        self._encode = encode
        self._max_trace_events = max_trace_events
        self._max_trace_bytes = max_trace_bytes
        self._max_bytes = max_bytes
        self._max_traces = max_traces
        self._max_kept = max_kept
        # Re-entrant: a signal handler may make a traced call in a thread that holds it.
        self._lock = gevent_compat.RLock()
        self._waiting: OrderedDict[str, _HeldEvents] = OrderedDict()
        self._kept: OrderedDict[str, None] = OrderedDict()
        self.held_bytes = 0
        self.held_events = 0

    def chosen(self, trace_id: str) -> bool:
        """Return whether a trace is always recorded; the same in every process."""
        return _position(trace_id) < self._threshold

    def offer(
        self, event: dict[str, Any], trace: TraceState | None, *, closes_run: bool | None
    ) -> None:
        """Store an event, hold it back, or release the held events of its trace."""
        if trace is None or self.chosen(trace.trace_id):
            self._store(event, trace, closes_run)
            return
        trace_id = trace.trace_id
        with self._lock:
            if trace_id in self._kept:
                # Also after the run has ended: later events belong to the kept trace.
                self._kept.move_to_end(trace_id)
                self._store(event, trace, closes_run)
                return
            waiting = self._known(trace_id)
            self._follow(waiting, event)
            if self._matters(waiting, event):
                self._keep(trace_id, waiting)
                self._store(event, trace, closes_run)
                return
            self._hold(waiting, event, trace, closes_run=bool(closes_run))
            if closes_run and not waiting.open and not waiting.more_open:
                self._forget(trace_id, waiting)
            self._bound()

    def drain(self) -> None:
        """Drop and count all held events at the end of the recorder."""
        with self._lock:
            for trace_id, waiting in list(self._waiting.items()):
                self._forget(trace_id, waiting)

    def _known(self, trace_id: str) -> _HeldEvents:
        waiting = self._waiting.get(trace_id)
        if waiting is None:
            waiting = self._waiting[trace_id] = _HeldEvents()
        self._waiting.move_to_end(trace_id)
        return waiting

    def _follow(self, waiting: _HeldEvents, event: Mapping[str, Any]) -> None:
        """Update the open runs and the cost of the trace."""
        kind = event["event_type"]
        execution_id = event.get("execution_id")
        if execution_id is not None:
            if kind in _OPENS:
                if len(waiting.open) < self._max_trace_events:
                    waiting.open.add(execution_id)
                else:
                    waiting.more_open += 1
            elif kind in _CLOSES:
                if execution_id in waiting.open:
                    waiting.open.discard(execution_id)
                elif waiting.more_open:
                    waiting.more_open -= 1
        cost = event.get("llm_cost_usd")
        if kind == semconv.LLM_CALLED and cost is not None:
            waiting.cost += cost
        else:
            waiting.cost = max(waiting.cost, cost or 0.0, event.get("total_llm_cost_usd") or 0.0)

    def _matters(self, waiting: _HeldEvents, event: Mapping[str, Any]) -> bool:
        if event["event_type"] in _TROUBLE or event.get("was_retried") is True:
            return True
        if event.get("status") in (semconv.FAILED, semconv.PARTIAL_SUCCESS):
            return True
        if event.get("error_type") is not None or event.get("fallback_used") is True:
            return True
        return waiting.cost >= self._keep_cost > 0.0

    def _hold(
        self, waiting: _HeldEvents, event: dict[str, Any], trace: TraceState, *, closes_run: bool
    ) -> None:
        held = Held(self._encode(event), trace, closes_run=closes_run)
        waiting.events.append(held)
        self.held_events += 1
        self._grow(waiting, held.line.size)
        while waiting.size > self._max_trace_bytes or len(waiting.events) > self._max_trace_events:
            self._drop_oldest(waiting)

    def _keep(self, trace_id: str, waiting: _HeldEvents) -> None:
        self._kept[trace_id] = None
        if len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)
        self._waiting.pop(trace_id, None)
        while waiting.events:
            held = self._take(waiting)
            self._store(held, held.trace, held.closes_run)

    def _forget(self, trace_id: str, waiting: _HeldEvents) -> None:
        self._waiting.pop(trace_id, None)
        while waiting.events:
            self._drop_oldest(waiting)

    def _bound(self) -> None:
        while self._waiting and (
            self.held_bytes > self._max_bytes or len(self._waiting) > self._max_traces
        ):
            _, oldest = self._waiting.popitem(last=False)
            while oldest.events:
                self._drop_oldest(oldest)

    def _drop_oldest(self, waiting: _HeldEvents) -> None:
        self._take(waiting)
        self._drop(SAMPLED_OUT)

    def _take(self, waiting: _HeldEvents) -> Held:
        held = waiting.events.popleft()
        self.held_events -= 1
        self._grow(waiting, -held.line.size)
        return held

    def _grow(self, waiting: _HeldEvents, size: int) -> None:
        waiting.size += size
        self.held_bytes += size


def _position(trace_id: str) -> int:
    digest = hashlib.blake2b(trace_id.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
