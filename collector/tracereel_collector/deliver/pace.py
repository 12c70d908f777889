"""How long what waits is kept waiting for company before it becomes the next batch."""

from dataclasses import dataclass

BUSY_RECORDS = 1_000
"""From so many in the last batch on, the next one waits for as long as it may."""
QUIET_SHARE = 0.1
REST_TIMES = 3.0
WORTHY_RECORDS = 20_000
"""An insert has a price of its own, the planning of all views: it is worth that with so many."""


@dataclass(slots=True)
class Pace:
    """The last insert of a kind, and what follows from it for the next; times are of one clock."""

    linger_seconds: float
    _records: int = 0
    _waits_since: float | None = None
    _seconds: float = 0.0
    _ended: float = 0.0

    def insert_ended(self, *, began: float, ended: float) -> None:
        """The store has taken a batch."""
        self._seconds = ended - began
        self._ended = ended

    def batch_ended(self, records: int, *, sealed: float, more_waits: bool) -> None:
        """A batch is done: what waits by now has come since it was sealed."""
        self._records = records
        self._waits_since = sealed if more_waits else None

    def wait_seconds(self, now: float) -> float:
        """How long to wait from now: a moment when little comes, longer when much does.

        Between two inserts the store rests for some times as long as the last one took, but never
        longer than the rule says: a trickle must not keep it busy, and what comes after a pause need
        not wait. What came while the last batch was under way has waited already, and where many
        come there is no rest: a store that cannot keep up would fall behind further.
        """
        share = min(1.0, max(QUIET_SHARE, self._records / BUSY_RECORDS))
        by_rate = share * self.linger_seconds
        if self._waits_since is not None:
            by_rate -= now - self._waits_since
        idle = 1.0 - min(1.0, self._records / WORTHY_RECORDS)
        rest = REST_TIMES * self._seconds * idle - (now - self._ended)
        return max(0.0, by_rate, min(self.linger_seconds, rest))
