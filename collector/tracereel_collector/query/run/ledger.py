"""Whether all of a run is here: the numbers that emitters gave its events, and what is missing."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.query.run.rows import EventRow

MAX_GAPS = 100
"""Most gaps that are listed; `missing` counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One emitter's share in one run."""

    emitter_id: str
    trace_id: str
    seen: int
    """How many of its numbers are here."""
    expected: int
    """The highest number that is known of."""
    told_end: bool
    """It has said how many there are, and nothing followed: it has closed its part."""
    missing: int
    gaps: Sequence[tuple[int, int]]
    """Numbers that are not here, as first and last."""
    duplicates: int
    first_at: int
    last_at: int


def accounts_of(events: Iterable[EventRow]) -> list[Account]:
    """What every emitter has told of every run; events without a number are in none."""
    grouped: defaultdict[tuple[str, str], list[EventRow]] = defaultdict(list)
    for row in events:
        if row.emitter_id and row.trace_seq:
            grouped[row.trace_id, row.emitter_id].append(row)
    return [_account(emitter, trace, rows) for (trace, emitter), rows in sorted(grouped.items())]


def verdict_of(accounts: Sequence[Account], *, unnumbered: int) -> str:
    """complete, incomplete, open (nothing missing so far, no end told) or unknown (not numbered)."""
    if any(account.missing for account in accounts):
        return "incomplete"
    if unnumbered or not accounts:
        return "unknown"
    # The emitter that began the run ends it; the others end with their part.
    return "complete" if any(account.told_end for account in accounts) else "open"


def unnumbered(events: Iterable[EventRow]) -> int:
    """How many events nobody has numbered; what came of a re-execution is none of the run's."""
    return sum(
        not (row.emitter_id and row.trace_seq) and row.event_type != TAPE_RECORDED for row in events
    )


def _account(emitter_id: str, trace_id: str, rows: Sequence[EventRow]) -> Account:
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
) -> Account:
    """What the numbers that are here say; they are sorted, each once, and begin at 1."""
    expected = max(numbers[-1], told or 0)
    gaps = []
    before = 0
    for number in [*numbers, expected + 1]:
        if number > before + 1:
            gaps.append((before + 1, number - 1))
        before = number
    return Account(
        emitter_id=emitter_id,
        trace_id=trace_id,
        seen=len(numbers),
        expected=expected,
        # A run that goes on after its end, as one that is tried again, has another end to tell.
        told_end=told is not None and told >= numbers[-1],
        missing=expected - len(numbers),
        gaps=gaps[:MAX_GAPS],
        duplicates=stored - len(numbers),
        first_at=first_at,
        last_at=last_at,
    )
