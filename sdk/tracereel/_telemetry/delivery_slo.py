"""Delivery delay and closed runs, measured by the delivery thread.

Nothing is measured when an event is recorded. Each line ends with its clock and numbers, or has them
before large content. Delays are sampled: one line represents its neighbours.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
from prometheus_client import Histogram

from tracereel import semconv
from tracereel._telemetry.compat import histogram_fields

SAMPLES: Final = 16
"""Lines per batch whose delay is measured."""
_CLOCK: Final = b'"hlc":"'
_CLOCK_DIGITS: Final = 16
_CLOSES: Final = b'"trace_event_count":'
_TAIL: Final = 48
"""Bytes at the end of the facts that are searched for the closing count."""
_CONTENT: Final = f',"{semconv.CONTENT_BYTES}":'.encode()
_FAILURES: Final = (semconv.EXECUTION_FAILED, semconv.EXECUTION_CANCELLED)
_FAILED: Final = (semconv.FAILED, semconv.CANCELLED)


@dataclass(frozen=True, slots=True)
class Answered:
    """Measurements of lines that the collector has acknowledged or refused."""

    delays: tuple[tuple[float, int], ...]
    """Pairs of seconds from event to response, and number of events represented."""
    runs_closed: int
    runs_succeeded: int
    """Closed runs whose last event is no failure or cancellation."""


class _Ending(msgspec.Struct):
    """Fields of a run's last event with its outcome."""

    event_type: str = ""
    status: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the run ended, even if agents inside of it failed."""
        return self.event_type not in _FAILURES and self.status not in _FAILED


_read_ending: Final = msgspec.json.Decoder(_Ending).decode
_UNREADABLE: Final = _Ending(semconv.EXECUTION_FAILED)


def look_at(lines: Sequence[bytes], *, now_ns: int | None = None) -> Answered:
    """Measure spool lines at the time of the collector's response."""
    now = time.time_ns() if now_ns is None else now_ns
    total = len(lines)
    samples = min(total, SAMPLES)
    bounds = [total * number // samples for number in range(samples + 1)] if samples else []
    delays = []
    for first, following in pairwise(bounds):
        moment = _moment(lines[first])
        if moment is not None:
            # A hybrid logical clock may be slightly ahead.
            delays.append((max(0, now - moment) / 1e9, following - first))
    endings = [_ending(line) for line in lines if _closes(line)]
    succeeded = sum([ending.succeeded for ending in endings])
    return Answered(tuple(delays), len(endings), succeeded)


def _closes(line: bytes) -> bool:
    if len(line) <= semconv.LARGE_CONTENT:
        return line.find(_CLOSES, -_TAIL) >= 0
    end = _end_of_facts(line)
    return line.find(_CLOSES, max(0, end - _TAIL), end) >= 0


def _end_of_facts(line: bytes) -> int:
    end = line.find(_CONTENT) if len(line) > semconv.LARGE_CONTENT else -1
    return len(line) if end < 0 else end


def _ending(line: bytes) -> _Ending:
    try:
        return _read_ending(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _UNREADABLE


def _moment(line: bytes) -> int | None:
    begin = line.rfind(_CLOCK, 0, _end_of_facts(line)) + len(_CLOCK)
    try:
        return int(line[begin : begin + _CLOCK_DIGITS], 16)
    except ValueError:
        return None


def observe_many(histogram: Histogram, value: float, times: int) -> None:
    """Observe a value several times at the cost of one observation."""
    fields = histogram_fields(histogram)
    if fields is None:
        for _ in range(times):
            histogram.observe(value)
        return
    fields.total.inc(value * times)
    for bound, bucket in zip(fields.bounds, fields.buckets, strict=True):
        if value <= bound:
            bucket.inc(times)
            return
