"""Pacing of inserts: how long bodies wait before they are sealed into a batch."""

from dataclasses import dataclass

BUSY_RECORDS = 1_000
"""Batch size from which the next batch waits for the full linger time."""
QUIET_SHARE = 0.1
REST_TIMES = 15.0
"""Rest after a small insert, in durations of it: what planning all views costs is spread over time."""
WORTHY_RECORDS = 20_000
"""Records that justify an insert's fixed cost, the planning of all views."""


@dataclass(slots=True)
class Pace:
    """Wait before a kind's next insert, from the last one. All times are of one clock."""

    linger_seconds: float
    _records: int = 0
    _waits_since: float | None = None
    _seconds: float = 0.0
    _ended: float = 0.0

    def insert_ended(self, *, began: float, ended: float) -> None:
        """Record the duration of an insert."""
        self._seconds = ended - began
        self._ended = ended

    def batch_ended(self, records: int, *, sealed: float, more_waits: bool) -> None:
        """Record a finished batch; bodies that wait now arrived after `sealed`."""
        self._records = records
        self._waits_since = sealed if more_waits else None

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before sealing: short after a pause, longer at high rates.

        The store rests between small inserts, from the end of the last one for at most the linger
        time: a trickle does not keep it busy, and a body after a pause does not wait. Time spent during
        the last batch counts as waited. Large batches skip the rest, so that a slow store can catch up.
        """
        share = min(1.0, max(QUIET_SHARE, self._records / BUSY_RECORDS))
        by_rate = share * self.linger_seconds
        if self._waits_since is not None:
            by_rate -= now - self._waits_since
        idle = 1.0 - min(1.0, self._records / WORTHY_RECORDS)
        rest = min(self.linger_seconds, REST_TIMES * self._seconds * idle)
        return max(0.0, by_rate, self._ended + rest - now)
