"""Cache of recent traces, so that consecutive runs with one trace id share their state."""

from typing import Final

from tracereel._export.trace_state import TraceState
from tracereel._runtime import gevent_compat
from tracereel._runtime.clock import sortable_id

MAX_REMEMBERED_TRACES: Final = 4096
"""Maximum number of cached traces; sibling runs of an OpenTelemetry trace continue its count."""


class RememberedTraces:
    """Bounded cache of traces by id, with a count of opened runs."""

    def __init__(self) -> None:
        self.opened = 0
        self.known: dict[str, TraceState] = {}
        self.older: dict[str, TraceState] = {}
        # Re-entrant: a signal handler may make a traced call in a thread that holds it.
        self._lock = gevent_compat.RLock()

    def trace(self, trace_id: str, suffix: str | None = None) -> TraceState:
        """Return the cached or a new trace for a root run.

        A new trace gets a request id, made from the suffix of another id if given.
        """
        self.opened += 1
        known = self.known
        if (found := known.get(trace_id)) is not None:
            return found
        # Two generations instead of an LRU order: entries unused during one generation are evicted.
        with self._lock:
            known = self.known
            found = known.get(trace_id) or self.older.get(trace_id)
            if found is None:
                found = TraceState(trace_id, f"req_{suffix}" if suffix else sortable_id("req"))
            known[trace_id] = found
            if len(known) >= MAX_REMEMBERED_TRACES // 2:
                self.known, self.older = {}, known
            return found

    def reopen(self, trace: TraceState) -> None:
        """Count another run of a trace, and cache it again if it was evicted."""
        self.opened += 1
        with self._lock:
            self.known.setdefault(trace.trace_id, trace)
