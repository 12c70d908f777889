"""Ledger of a run: event numbers of each emitter, and gaps between them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.query.run.rows import EventRow

MAX_GAPS = 100
"""Maximum gaps listed; `missing` counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitterLedger:
    """Events of one emitter in one run."""

    emitter_id: str
    trace_id: str
    seen: int
    """Number of distinct event numbers stored."""
    expected: int
    """Highest event number known."""
    told_end: bool
    """Whether the emitter has reported its final count and no event followed."""
    missing: int
    gaps: Sequence[tuple[int, int]]
    """Missing numbers, as first and last of each gap."""
    duplicates: int
    first_at: int
    last_at: int


def accounts_of(events: Iterable[EventRow]) -> list[EmitterLedger]:
    """Return a ledger per run and emitter; events without a number are ignored."""
    grouped: defaultdict[tuple[str, str], list[EventRow]] = defaultdict(list)
    for row in events:
        if row.emitter_id and row.trace_seq:
            grouped[row.trace_id, row.emitter_id].append(row)
    return [_account(emitter, trace, rows) for (trace, emitter), rows in sorted(grouped.items())]


def verdict_of(accounts: Sequence[EmitterLedger], *, unnumbered: int) -> str:
    """Return complete, incomplete, open (no gap, no end yet) or unknown (events without numbers)."""
    if any(account.missing for account in accounts):
        return "incomplete"
    if unnumbered or not accounts:
        return "unknown"
    # The emitter that began the run reports the final count; others only end their part.
    return "complete" if any(account.told_end for account in accounts) else "open"


def unnumbered(events: Iterable[EventRow]) -> int:
    """Return the number of events without a number; tape parts do not count."""
    return sum(
        not (row.emitter_id and row.trace_seq) and row.event_type != TAPE_RECORDED for row in events
    )


def _account(emitter_id: str, trace_id: str, rows: Sequence[EventRow]) -> EmitterLedger:
    told = [row.trace_event_count for row in rows if row.trace_event_count is not None]
    moments = [row.unix_nano for row in rows]
    return account(
        emitter_id=emitter_id,
        trace_id=trace_id,
        numbers=sorted({row.trace_seq for row in rows}),
        told=max(told, default=None),
        stored=len(rows),
        first_at=min(moments),
        last_at=max(moments),
    )


def account(
    *,
    emitter_id: str,
    trace_id: str,
    numbers: Sequence[int],
    told: int | None,
    stored: int,
    first_at: int,
    last_at: int,
) -> EmitterLedger:
    """Return the ledger for stored `numbers`: sorted, distinct, 1 or above."""
    expected = max(numbers[-1], told or 0)
    gaps = []
    before = 0
    for number in [*numbers, expected + 1]:
        if number > before + 1:
            gaps.append((before + 1, number - 1))
        before = number
    return EmitterLedger(
        emitter_id=emitter_id,
        trace_id=trace_id,
        seen=len(numbers),
        expected=expected,
        # A run that continues after its end, such as a retried one, must report another end.
        told_end=told is not None and told >= numbers[-1],
        missing=expected - len(numbers),
        gaps=gaps[:MAX_GAPS],
        duplicates=stored - len(numbers),
        first_at=first_at,
        last_at=last_at,
    )
