"""What the delivering thread can say about the goals of the service: how late, and how many whole runs.

Nothing is measured when an event is recorded. Lines carry what is needed, their numbers and their
clock at the very end; a few lines stand for their neighbours.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from prometheus_client import Histogram

SAMPLES: Final = 16
"""Lines of a batch whose delay is looked at."""
_CLOCK: Final = b'"hlc":"'
_CLOCK_DIGITS: Final = 16
_CLOSES: Final = b'"trace_event_count":'
_TAIL: Final = 48
"""Within so many bytes of its end, a line that closes a run says so."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What lines that the collector has answered for tell."""

    delays: tuple[tuple[float, int], ...]
    """Seconds from the event to the answer, and how many events had about that."""
    runs_closed: int


def look_at(lines: Sequence[bytes], *, now_ns: int | None = None) -> Answered:
    """Measure lines of a spool at the moment of their answer."""
    now = time.time_ns() if now_ns is None else now_ns
    total = len(lines)
    samples = min(total, SAMPLES)
    bounds = [total * number // samples for number in range(samples + 1)] if samples else []
    delays = []
    for first, following in pairwise(bounds):
        moment = _moment(lines[first])
        if moment is not None:
            # A clock that follows another one may be a little ahead.
            delays.append((max(0, now - moment) / 1e9, following - first))
    closed = sum([line.find(_CLOSES, -_TAIL) >= 0 for line in lines])
    return Answered(tuple(delays), closed)


def _moment(line: bytes) -> int | None:
    begin = line.rfind(_CLOCK) + len(_CLOCK)
    try:
        return int(line[begin : begin + _CLOCK_DIGITS], 16)
    except ValueError:
        return None


def observe_many(histogram: Histogram, value: float, times: int) -> None:
    """Add a value several times over at the price of one."""
    buckets, total = getattr(histogram, "_buckets", None), getattr(histogram, "_sum", None)
    if buckets is None or total is None:
        for _ in range(times):
            histogram.observe(value)
        return
    total.inc(value * times)
    for bound, bucket in zip(histogram._upper_bounds, buckets, strict=True):  # noqa: SLF001
        if value <= bound:
            bucket.inc(times)
            return
