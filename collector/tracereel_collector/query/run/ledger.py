"""Ledger of a run: event numbers of each emitter, and gaps between them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.query.run.events import EventRow

MAX_GAPS = 100
"""Maximum gaps listed; `missing` counts all."""


class LedgerRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Events of one emitter in one run; row of `run_ledger.sql`, in column order."""

    trace_id: str
    emitter_id: str
    """Emitter; empty for events without a number."""
    stored: int
    events: int
    numbers: list[int]
    """Distinct event numbers stored, sorted, 1 or above."""
    reported: int | None
    """Final count that the emitter has reported."""
    first_at: int
    last_at: int

    @property
    def expected(self) -> int:
        """Highest event number known."""
        return max(self.numbers[-1], self.reported or 0)

    @property
    def missing(self) -> int:
        """Number of events that are not stored."""
        return self.expected - len(self.numbers)

    @property
    def has_ended(self) -> bool:
        """Whether the emitter has reported its final count and no event followed."""
        # A run that continues after its end, such as a retried one, must report another end.
        return self.reported is not None and self.reported >= self.numbers[-1]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Missing numbers, as first and last of each gap."""
        found = []
        before = 0
        for number in [*self.numbers, self.expected + 1]:
            if number > before + 1:
                found.append((before + 1, number - 1))
            before = number
        return found[:MAX_GAPS]


def accounts_of(events: Iterable[EventRow]) -> list[LedgerRow]:
    """Return a ledger per run and emitter; events without a number are ignored."""
    grouped: defaultdict[tuple[str, str], list[EventRow]] = defaultdict(list)
    for row in events:
        if row.emitter_id and row.trace_seq:
            grouped[row.trace_id, row.emitter_id].append(row)
    return [_account(trace, emitter, rows) for (trace, emitter), rows in sorted(grouped.items())]


def _account(trace_id: str, emitter_id: str, rows: Sequence[EventRow]) -> LedgerRow:
    counts = [row.trace_event_count for row in rows if row.trace_event_count is not None]
    times = [row.unix_nano for row in rows]
    return LedgerRow(
        trace_id=trace_id,
        emitter_id=emitter_id,
        stored=len(rows),
        events=len(rows),
        numbers=sorted({row.trace_seq for row in rows}),
        reported=max(counts, default=None),
        first_at=min(times),
        last_at=max(times),
    )


def verdict_of(accounts: Sequence[LedgerRow], *, unnumbered: int) -> str:
    """Return complete, incomplete, open (no gap, no end yet) or unknown (events without numbers)."""
    if any(account.missing for account in accounts):
        return "incomplete"
    if unnumbered or not accounts:
        return "unknown"
    # The emitter that began the run reports the final count; others only end their part.
    return "complete" if any(account.has_ended for account in accounts) else "open"


def unnumbered(events: Iterable[EventRow]) -> int:
    """Return the number of events without a number; tape parts do not count."""
    return sum(
        not (row.emitter_id and row.trace_seq) and row.event_type != TAPE_RECORDED for row in events
    )
