"""Place of spans among the events of a run: by when they began, and behind their cause.

Events have hybrid logical clocks, spans only wall clocks. A span is therefore placed among the events of
the process that caused it, by their times. It never precedes the event that opened a step around it,
nor follows an event of a step below it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.positions import BEGINNING, Cursor, place_key
from tracereel_collector.query.run.steps import RunStep, clock_of

_MICRO = 1_000


def time_of(row: EventRow) -> int:
    """Return the time of an event; the clock adds the nanoseconds that timestamps leave out."""
    return max(row.unix_nano, min(row.hlc, row.unix_nano + _MICRO - 1))


class _ClockEvents:
    """Events of one clock: their times, which only grow, and their places in the run."""

    __slots__ = ("_hlcs", "_places", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._hlcs: list[int] = []
        self._places: list[int] = []

    def add(self, time: int, hlc: int, place: int) -> None:
        """Add the next event in causal order."""
        self._times.append(max(time, self._times[-1]) if self._times else time)
        self._hlcs.append(hlc)
        self._places.append(place)

    def locate(self, time: int, hlcs: Sequence[int]) -> tuple[int, int]:
        """Return a time as a causal position, and the place of the event before it (-1: none)."""
        after = bisect_right(self._times, time)
        near = max(0, after - 1)
        position = max(0, self._hlcs[near] + time - self._times[near])
        lowest = self._places[near] if after else -1
        highest = self._places[after] - 1 if after < len(self._places) else len(hlcs) - 1
        return position, max(lowest, min(bisect_right(hlcs, position) - 1, highest))


def place_spans(
    steps: Sequence[RunStep], events: Sequence[EventRow], shifts: Mapping[str, int]
) -> None:
    """Set position and cursor of the steps that only spans describe; parents must precede children."""
    hlcs = [row.hlc for row in events]
    places = {id(row): place for place, row in enumerate(events)}
    by_clock: dict[str, _ClockEvents] = {}
    for place, row in enumerate(events):
        clock = clock_of(row)
        by_clock.setdefault(clock, _ClockEvents()).add(
            time_of(row) + shifts.get(clock, 0), row.hlc, place
        )
    first = _first_below(steps, places)
    lowest: dict[int, int] = {}
    anchors: dict[int, str] = {}
    keys: dict[int, int] = {}
    """Position of each span among those behind the same event."""
    for step in steps:
        parent = step.parent
        low = lowest.get(id(parent), -1)
        if step.events:
            anchors[id(step)] = step.clock
            if step.opening is not None:
                low = max(low, places[id(step.opening)])
        else:
            below = first.get(id(step))
            near = clock_of(events[below]) if below is not None else ""
            anchors[id(step)] = anchors.get(id(parent)) or near or _any(by_clock)
        lowest[id(step)] = low
        if step.source == "events":
            continue
        near_events = by_clock.get(anchors[id(step)])
        if step.source == "otlp":
            position, place = _located(near_events, step.began, hlcs)
            low = min(max(place, low), first.get(id(step), len(events)) - 1)
            key = position
            if parent is not None and parent.source == "otlp":
                position = max(position, parent.position + 1)
                if lowest[id(parent)] == low:
                    key = max(key, keys[id(parent)] + 1)
            step.position, keys[id(step)] = position, key
            step.cursor = _cursor(events, low, place_key(key, step.id))
            lowest[id(step)] = low
        before, at = keys.get(id(step), step.position), low
        for each in step.span_events:
            found, place = _located(near_events, each.row.time + step.shift, hlcs)
            place = max(place, low)
            # Positions behind different events do not compare: an event may be numbered long after its
            # time, if its thread had to wait.
            before, at = max(found, before + 1) if place == at else found, place
            each.cursor = _cursor(events, place, place_key(before, step.id, each.row.number))


def _located(near: _ClockEvents | None, time: int, hlcs: Sequence[int]) -> tuple[int, int]:
    return (max(0, time), -1) if near is None else near.locate(time, hlcs)


def _cursor(events: Sequence[EventRow], place: int, key: str) -> Cursor:
    """Return the cursor of a span behind an event; -1 is the beginning of the run."""
    at = BEGINNING if place < 0 else Cursor(events[place].hlc, events[place].sequence_number)
    return Cursor(at.position, at.number, key)


def _any(by_clock: Mapping[str, _ClockEvents]) -> str:
    return next(iter(by_clock), "")


def _first_below(steps: Sequence[RunStep], places: Mapping[int, int]) -> dict[int, int]:
    """Return the place of the first event in and below each step that has one."""
    first: dict[int, int] = {}
    for step in reversed(steps):
        found = [places[id(row)] for row in step.events]
        found += [first[id(child)] for child in step.children if id(child) in first]
        if found:
            first[id(step)] = min(found)
    return first
