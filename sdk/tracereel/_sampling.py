"""Sampling by trace: some traces are recorded whole, of the others only those where something went wrong.

The hash of the trace id decides, so that every process decides alike. Events of a trace that is not
chosen are held back, encoded, before they are numbered. They are let go in
their order as soon as an event says failure, retry, fallback or high cost; from then on the trace is
kept: all of it passes. They are dropped and counted when the last open run of the trace has ended
well. What is held is bounded per trace and in all: the oldest goes first.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel import _native, _values, semconv
from tracereel._run import Trace

SAMPLED_OUT: Final = "sampled_out"
MAX_TRACE_EVENTS: Final = 1_000
MAX_TRACE_BYTES: Final = 1024 * 1024
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_TRACES: Final = 4_096
MAX_KEPT: Final = 16_384
"""Kept traces that are remembered as such, the latest ones."""

Store = Callable[[dict[str, Any], Trace | None, bool | None], None]
"""Writes an event down: the event, its trace, whether it closes the run (null: it stays as it is)."""
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


class Held(_values.Encoded):
    """An encoded event that waits, with what the spool needs to write it."""

    __slots__ = ("closes_run", "trace")

    def __init__(self, body: bytes, trace: Trace, *, closes_run: bool) -> None:
        super().__init__(body)
        self.trace = trace
        self.closes_run = closes_run


@dataclass(slots=True)
class _Waiting:
    """What is known of a trace that was not chosen."""

    events: deque[Held] = field(default_factory=deque)
    size: int = 0
    open: set[str] = field(default_factory=set)
    more_open: int = 0
    """Open runs beyond those whose ids are known."""
    cost: float = 0.0


class Sampler:
    """Decides for one recorder; `store` and `drop` are the recorder's."""

    def __init__(
        self,
        rate: float,
        *,
        keep_cost_usd: float,
        store: Store,
        drop: Drop,
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
        self._max_trace_events = max_trace_events
        self._max_trace_bytes = max_trace_bytes
        self._max_bytes = max_bytes
        self._max_traces = max_traces
        self._max_kept = max_kept
        # Re-entrant: a signal handler may make a traced call while its own thread is in here.
        self._lock = _native.RLock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._kept: OrderedDict[str, None] = OrderedDict()
        self.held_bytes = 0
        self.held_events = 0

    def chosen(self, trace_id: str) -> bool:
        """Whether a trace is recorded whatever happens in it; the same in every process."""
        return _position(trace_id) < self._threshold

    def offer(self, event: dict[str, Any], trace: Trace | None, *, closes_run: bool | None) -> None:
        """Store an event, hold it back, or let go of what was held for its trace."""
        if trace is None or self.chosen(trace.trace_id):
            self._store(event, trace, closes_run)
            return
        trace_id = trace.trace_id
        with self._lock:
            if trace_id in self._kept:
                # Also after its run has ended: what follows in it belongs to what was kept.
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
        """Drop and count everything that is held: the recorder ends."""
        with self._lock:
            for trace_id, waiting in list(self._waiting.items()):
                self._forget(trace_id, waiting)

    def _known(self, trace_id: str) -> _Waiting:
        waiting = self._waiting.get(trace_id)
        if waiting is None:
            waiting = self._waiting[trace_id] = _Waiting()
        self._waiting.move_to_end(trace_id)
        return waiting

    def _follow(self, waiting: _Waiting, event: Mapping[str, Any]) -> None:
        """Keep the list of open runs and the cost of the trace."""
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

    def _matters(self, waiting: _Waiting, event: Mapping[str, Any]) -> bool:
        if event["event_type"] in _TROUBLE or event.get("was_retried") is True:
            return True
        if event.get("status") in (semconv.FAILED, semconv.PARTIAL_SUCCESS):
            return True
        if event.get("error_type") is not None or event.get("fallback_used") is True:
            return True
        return waiting.cost >= self._keep_cost > 0.0

    def _hold(
        self, waiting: _Waiting, event: dict[str, Any], trace: Trace, *, closes_run: bool
    ) -> None:
        held = Held(_values.encode(event), trace, closes_run=closes_run)
        waiting.events.append(held)
        self.held_events += 1
        self._grow(waiting, len(held.body))
        while waiting.size > self._max_trace_bytes or len(waiting.events) > self._max_trace_events:
            self._drop_oldest(waiting)

    def _keep(self, trace_id: str, waiting: _Waiting) -> None:
        self._kept[trace_id] = None
        if len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)
        self._waiting.pop(trace_id, None)
        while waiting.events:
            held = self._take(waiting)
            self._store(held, held.trace, held.closes_run)

    def _forget(self, trace_id: str, waiting: _Waiting) -> None:
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

    def _drop_oldest(self, waiting: _Waiting) -> None:
        self._take(waiting)
        self._drop(SAMPLED_OUT)

    def _take(self, waiting: _Waiting) -> Held:
        held = waiting.events.popleft()
        self.held_events -= 1
        self._grow(waiting, -len(held.body))
        return held

    def _grow(self, waiting: _Waiting, size: int) -> None:
        waiting.size += size
        self.held_bytes += size


def _position(trace_id: str) -> int:
    digest = hashlib.blake2b(trace_id.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
