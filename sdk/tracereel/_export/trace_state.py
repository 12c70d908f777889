"""Per-trace counters of the spool."""

from typing import Any


class TraceState:
    """Ids of one trace and the number of its events in this process.

    The spool changes the counters under its lock.
    """

    __slots__ = ("emitter_id", "is_closed", "over", "recorded", "request_id", "tape", "trace_id")

    def __init__(self, trace_id: str, request_id: str) -> None:
        self.trace_id = trace_id
        self.request_id = request_id
        self.emitter_id: str | None = None
        self.recorded = 0
        self.over = False
        """Whether the run has ended; a call that ends later closes the run again."""
        self.is_closed = False
        """Whether the last written event carries the final count."""
        self.tape: Any = None
        """Tape of the run, if any."""
