"""The traces a process has seen lately: runs of one id that follow each other share one."""

from typing import Final

from tracereel import _native
from tracereel._clock import sortable_id
from tracereel._run import Trace

MAX_REMEMBERED_TRACES: Final = 4096
"""Traces whose count is kept: sibling runs of one OpenTelemetry trace go on with it."""


class RememberedTraces:
    """Traces by their id, as many as are bearable, and how often one was begun."""

    def __init__(self) -> None:
        self.opened = 0
        self.known: dict[str, Trace] = {}
        self.older: dict[str, Trace] = {}
        # Re-entrant: a signal handler may make a traced call while its own thread is in here.
        self._lock = _native.RLock()

    def trace(self, trace_id: str, suffix: str | None = None) -> Trace:
        """The trace of a new root run; the same object while runs of that id follow each other.

        A request id is made for a new one, from the suffix of another id if there is one.
        """
        self.opened += 1
        known = self.known
        if (found := known.get(trace_id)) is not None:
            return found
        # Two halves instead of an order of use: what was not asked for during one half's time goes.
        with self._lock:
            known = self.known
            found = known.get(trace_id) or self.older.get(trace_id)
            if found is None:
                found = Trace(trace_id, f"req_{suffix}" if suffix else sortable_id("req"))
            known[trace_id] = found
            if len(known) >= MAX_REMEMBERED_TRACES // 2:
                self.known, self.older = {}, known
            return found

    def reopen(self, trace: Trace) -> None:
        """Another run goes on with a trace that is at hand, also if it has been forgotten here."""
        self.opened += 1
        with self._lock:
            self.known.setdefault(trace.trace_id, trace)
