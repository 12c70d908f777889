"""Prometheus series made cheap and bounded: counts gathered, labels capped, exemplars now and then.

Every event counts in several series, and prometheus_client takes a lock for each. So a cell gathers
plain numbers, all under one lock of ours, and hands them on when somebody collects; in
multi-process mode, where another process collects, and in a metric that is the program's own, it
hands them on at once.

An exemplar costs more than all the rest. One a second and series is what a scrape can see anyway; a
histogram besides takes every value that is the second's highest, so that the slow ones, for which
people look at exemplars, are never without.
"""

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase

from tracereel import _guard, _native

MAX_VALUES: Final = 200
"""Different values of one label in one series; what comes later counts as `other`."""
MAX_CHILDREN: Final = 2_000
"""Combinations of labels in one series; then `other` for every label with an open set of values."""
MAX_LABEL_LENGTH: Final = 128
MAX_WAITING: Final = 256
"""Events that wait to be counted."""
UNKNOWN: Final = "unknown"
"""Label value where the event says null."""
OTHER: Final = "other"
CLOSED_LABELS: Final = frozenset({"status", "direction", "outcome", "error_category", "cause"})
"""Labels whose values we choose ourselves."""

_EXEMPLAR_LIMIT: Final = 128 - len("trace_id")
"""OpenMetrics allows 128 characters for names and values of an exemplar together."""


class Turn:
    """One at a time; who comes back in from a signal handler is called when the first is done.

    The locks inside prometheus_client are not re-entrant: waiting for them there would be for ever.
    What is left for later is done by whoever comes next, at the latest by who wants to see it: many
    together take a fraction of the time that they take one by one between other work.
    """

    __slots__ = ("_busy", "_late", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = _native.RLock()
        self._busy = False
        self._late: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        # A fork copies locks as they are, ours and prometheus_client's: none may be held then.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )

    def __call__(self, action: Callable[..., None], *args: Any) -> None:
        """Do something with cells."""
        with self._lock:
            if self._busy:
                self._late.append((action, args))
                return
            self._busy = True
            try:
                while self._waiting:
                    _do(*self._waiting.popleft())
                action(*args)
                while self._late:
                    late, given = self._late.popleft()
                    late(*given)
            finally:
                self._busy = False

    def later(self, action: Callable[..., None], *args: Any) -> None:
        """Do something with cells before anybody sees them."""
        self._waiting.append((action, args))
        if len(self._waiting) >= MAX_WAITING:
            self(_nothing)


def _do(action: Callable[..., None], args: tuple[Any, ...]) -> None:
    try:
        action(*args)
    except Exception as error:  # noqa: BLE001 - who has left it for later is not here any more
        _guard.report("metrics", error)


def _nothing() -> None:
    """There was only something left to be done."""


in_turn: Final = Turn()
"""For everything that touches a cell."""


class CounterCell:
    """One child of a counter."""

    __slots__ = ("_child", "_gathered", "_gathers", "_second")

    def __init__(self, child: Counter, *, gathers: bool) -> None:
        self._child = child
        self._gathers = gathers
        self._gathered = 0.0
        self._second = -1

    def add(self, amount: float = 1, trace_id: str | None = None) -> None:
        """Count; amounts that are not positive are none."""
        if not amount > 0:
            return
        if trace_id is not None and (second := int(monotonic())) != self._second:
            self._second = second
            if len(trace_id) <= _EXEMPLAR_LIMIT:
                self._child.inc(amount, {"trace_id": trace_id})
                return
        if self._gathers:
            self._gathered += amount
        else:
            self._child.inc(amount)

    def hand_on(self) -> None:
        """Give the child what was gathered."""
        if self._gathered:
            self._child.inc(self._gathered)
            self._gathered = 0.0


class HistogramCell:
    """One child of a histogram."""

    __slots__ = ("_bounds", "_child", "_gathered", "_gathers", "_highest", "_second", "_sum")

    def __init__(self, child: Histogram, *, gathers: bool) -> None:
        self._child = child
        self._bounds: list[float] = getattr(child, "_upper_bounds", [])
        # Values cannot be given to a histogram in bulk but by its parts.
        self._gathers = gathers and hasattr(child, "_buckets") and hasattr(child, "_sum")
        self._gathered = [0] * len(self._bounds)
        self._sum = 0.0
        self._second = -1
        self._highest = 0.0

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Add a value."""
        second = int(monotonic())
        if second != self._second or value > self._highest:
            self._second, self._highest = second, value
            if trace_id is not None and len(trace_id) <= _EXEMPLAR_LIMIT:
                self._child.observe(value, {"trace_id": trace_id})
                return
        if self._gathers:
            self._gathered[bisect_left(self._bounds, value)] += 1
            self._sum += value
        else:
            self._child.observe(value)

    def hand_on(self) -> None:
        """Give the child what was gathered."""
        if any(self._gathered):
            buckets, total = self._child._buckets, self._child._sum  # noqa: SLF001
            total.inc(self._sum)
            for place, count in enumerate(self._gathered):
                if count:
                    buckets[place].inc(count)
            self._gathered = [0] * len(self._bounds)
            self._sum = 0.0


class GaugeCell:
    """One child of a gauge."""

    __slots__ = ("set",)

    def __init__(self, child: Gauge, *, gathers: bool) -> None:  # noqa: ARG002
        self.set: Callable[[float], None] = child.set

    def hand_on(self) -> None:
        """A gauge has its value already."""


class _Collected(MetricWrapperBase):
    """A metric that has its cells hand on what they have gathered before it is collected."""

    series: "Series[Any] | None" = None

    def collect(self) -> Iterable[Metric]:
        if self.series is not None:
            in_turn(self.series.hand_on)
        return super().collect()


class CollectedCounter(_Collected, Counter):
    """A counter of ours."""


class CollectedHistogram(_Collected, Histogram):
    """A histogram of ours."""


class CollectedGauge(_Collected, Gauge):
    """A gauge of ours."""


CellT = TypeVar("CellT", CounterCell, HistogramCell, GaugeCell)


class Series(Generic[CellT]):
    """A metric and its cells; looking a child up by its labels is what costs most, so they stay."""

    __slots__ = (
        *("__weakref__", "_cells", "_make", "_names", "_seen"),
        *("before", "gathers", "metric"),
    )

    def __init__(self, metric: Any, names: tuple[str, ...], make: Callable[..., CellT]) -> None:
        self.metric = metric
        self.before: Callable[[], None] | None = None
        """Called before the cells hand on: what is counted elsewhere is counted here then."""
        self.gathers = isinstance(metric, _Collected) and not _multiprocess()
        """Whether nobody sees what is counted before we are asked for it."""
        if isinstance(metric, _Collected):
            metric.series = self
        self._make: Callable[..., CellT] = make
        self._names = names
        self._cells: dict[tuple[object, ...], CellT] = {}
        self._seen: dict[str, set[str]] = {name: set() for name in names}

    def __call__(self, *labels: object) -> CellT:
        """The cell for these label values."""
        cell = self._cells.get(labels)
        return cell if cell is not None else self._admit(labels)

    def hand_on(self) -> None:
        """Have every cell give its child what it has gathered."""
        if self.before is not None:
            self.before()
        for cell in self._cells.values():
            cell.hand_on()

    def _admit(self, labels: tuple[object, ...]) -> CellT:
        values = tuple(
            self._cap(name, _text(value)) for name, value in zip(self._names, labels, strict=True)
        )
        cell = self._cells.get(values)
        if cell is None and len(self._cells) >= MAX_CHILDREN:
            values = tuple(
                value if name in CLOSED_LABELS else OTHER
                for name, value in zip(self._names, values, strict=True)
            )
            cell = self._cells.get(values)
        if cell is None:
            # Under the values it has been given, not those asked for: these are without end.
            child = self.metric.labels(*values)
            cell = self._cells[values] = self._make(child, gathers=self.gathers)
        return cell

    def _cap(self, name: str, value: str) -> str:
        seen = self._seen[name]
        if value not in seen:
            if len(seen) >= MAX_VALUES:
                return OTHER
            seen.add(value)
        return value


def _multiprocess() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ or "prometheus_multiproc_dir" in os.environ


def _text(value: object) -> str:
    if value is None:
        return UNKNOWN
    text = value if isinstance(value, str) else type(value).__name__
    return text[:MAX_LABEL_LENGTH].encode("utf-8", "replace").decode()
