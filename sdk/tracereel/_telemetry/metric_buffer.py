"""Buffered Prometheus series with bounded labels and sampled exemplars.

Each event counts in several series, and prometheus_client takes a lock for each. Cells therefore
buffer plain numbers under one lock and pass them on when the registry is collected. In
multi-process mode, and for metrics that the program registered itself, they pass values on
immediately.

Exemplars are expensive. Each series records one per second, which is all that a scrape can see. A
histogram also records one for each new maximum within the second, so that slow calls have
exemplars.
"""

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase

from tracereel._runtime import gevent_compat, guard
from tracereel._telemetry.compat import histogram_fields

MAX_VALUES: Final = 200
"""Distinct values of one label in one series; further values count as `other`."""
MAX_CHILDREN: Final = 2_000
"""Label combinations in one series; beyond, labels with an open set of values become `other`."""
MAX_LABEL_LENGTH: Final = 128
MAX_WAITING: Final = 256
"""Events that may wait to be counted."""
UNKNOWN: Final = "unknown"
"""Label value for None."""
OTHER: Final = "other"
CLOSED_LABELS: Final = frozenset({"status", "direction", "outcome", "error_category", "cause"})
"""Labels whose values the SDK defines."""

_EXEMPLAR_LIMIT: Final = 128 - len("trace_id")
"""Characters left for the value: OpenMetrics allows 128 for names and values of an exemplar."""


class CountingTurn:
    """Mutex that defers re-entrant calls.

    The locks of prometheus_client are not re-entrant: a signal handler would deadlock. Deferred
    actions run with the next call, at the latest when metrics are collected. Running many at once
    is much cheaper than running them one by one.
    """

    __slots__ = ("_busy", "_late", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = gevent_compat.RLock()
        self._busy = False
        self._late: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        # A fork copies locks in their state; none of these or of prometheus_client may be held.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )

    def __call__(self, action: Callable[..., None], *args: Any) -> None:
        """Run an action on cells, after deferred ones."""
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
        """Run an action on cells before the next collection."""
        self._waiting.append((action, args))
        if len(self._waiting) >= MAX_WAITING:
            self(_nothing)


def _do(action: Callable[..., None], args: tuple[Any, ...]) -> None:
    try:
        action(*args)
    except Exception as error:  # noqa: BLE001 - the original caller has already returned
        guard.report("metrics", error)


def _nothing() -> None:
    """Do nothing; used to run deferred actions."""


in_turn: Final = CountingTurn()
"""Mutex for all access to cells."""


class CounterCell:
    """Buffer of one counter child."""

    __slots__ = ("_child", "_gathered", "_gathers", "_second")

    def __init__(self, child: Counter, *, gathers: bool) -> None:
        self._child = child
        self._gathers = gathers
        self._gathered = 0.0
        self._second = -1

    def add(self, amount: float = 1, trace_id: str | None = None) -> None:
        """Add an amount; ignore amounts that are not positive."""
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
        """Add the buffered amount to the child."""
        if self._gathered:
            self._child.inc(self._gathered)
            self._gathered = 0.0

    def move(self, child: Counter) -> None:
        """Count in another child, which gets the amount so far."""
        self.hand_on()
        if self._gathers:
            child.inc(_sample(self._child, "_total"))
        self._child, self._gathers = child, False


class HistogramCell:
    """Buffer of one histogram child."""

    __slots__ = ("_bounds", "_child", "_fields", "_gathered", "_highest", "_second", "_sum")

    def __init__(self, child: Histogram, *, gathers: bool) -> None:
        self._child = child
        # prometheus_client has no bulk observe; values are added to its private fields.
        self._fields = histogram_fields(child) if gathers else None
        self._bounds = self._fields.bounds if self._fields is not None else ()
        self._gathered = [0] * len(self._bounds)
        self._sum = 0.0
        self._second = -1
        self._highest = 0.0

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Observe a value."""
        second = int(monotonic())
        if second != self._second or value > self._highest:
            self._second, self._highest = second, value
            if trace_id is not None and len(trace_id) <= _EXEMPLAR_LIMIT:
                self._child.observe(value, {"trace_id": trace_id})
                return
        if self._fields is not None:
            self._gathered[bisect_left(self._bounds, value)] += 1
            self._sum += value
        else:
            self._child.observe(value)

    def hand_on(self) -> None:
        """Add the buffered values to the child."""
        if self._fields is not None and any(self._gathered):
            self._fields.total.inc(self._sum)
            for place, count in enumerate(self._gathered):
                if count:
                    self._fields.buckets[place].inc(count)
            self._gathered = [0] * len(self._bounds)
            self._sum = 0.0

    def move(self, child: Histogram) -> None:
        """Observe in another child, which gets the values so far; its buckets may differ."""
        self.hand_on()
        if self._fields is not None:
            after = HistogramCell(child, gathers=True)
            if after._fields is not None:
                for bound, bucket in zip(self._bounds, self._fields.buckets, strict=True):
                    after._gathered[bisect_left(after._bounds, bound)] += bucket.get()
                after._sum = self._fields.total.get()
                after.hand_on()
        self._child, self._fields = child, None


class GaugeCell:
    """Gauge child; values are set without a buffer."""

    __slots__ = ("_child", "_gathers", "set")

    def __init__(self, child: Gauge, *, gathers: bool) -> None:
        self._child = child
        self._gathers = gathers
        self.set: Callable[[float], None] = child.set

    def hand_on(self) -> None:
        """Do nothing; gauges are not buffered."""

    def move(self, child: Gauge) -> None:
        """Set another child, which gets the last value."""
        if self._gathers:
            child.set(_sample(self._child, ""))
        self._child, self._gathers, self.set = child, False, child.set


class _Collected(MetricWrapperBase):
    """Metric that flushes its cells before it is collected."""

    series: "Series[Any] | None" = None

    def collect(self) -> Iterable[Metric]:
        if self.series is not None:
            in_turn(self.series.hand_on)
        return super().collect()


class CollectedCounter(_Collected, Counter):
    """Counter with buffered cells."""


class CollectedHistogram(_Collected, Histogram):
    """Histogram with buffered cells."""


class CollectedGauge(_Collected, Gauge):
    """Gauge registered by the SDK."""


CellT = TypeVar("CellT", CounterCell, HistogramCell, GaugeCell)


class Series(Generic[CellT]):
    """Metric with cached cells; looking up a child by its labels is the main cost."""

    __slots__ = (
        *("__weakref__", "_cells", "_make", "_seen"),
        *("before", "gathers", "metric", "names"),
    )

    def __init__(self, metric: Any, names: tuple[str, ...], make: Callable[..., CellT]) -> None:
        self.metric = metric
        self.before: Callable[[], None] | None = None
        """Callback before the cells are flushed, for values that are counted elsewhere."""
        self.gathers = isinstance(metric, _Collected) and not _multiprocess()
        """Whether counts may be buffered until collection."""
        if isinstance(metric, _Collected):
            metric.series = self
        self._make: Callable[..., CellT] = make
        self.names = names
        self._cells: dict[tuple[object, ...], CellT] = {}
        self._seen: dict[str, set[str]] = {name: set() for name in names}

    def __call__(self, *labels: object) -> CellT:
        """Return the cell for these label values."""
        cell = self._cells.get(labels)
        return cell if cell is not None else self._admit(labels)

    def hand_on(self) -> None:
        """Flush all cells."""
        if self.before is not None:
            self.before()
        for cell in self._cells.values():
            cell.hand_on()

    def move_to(self, metric: Any) -> None:
        """Count in another metric of the same labels, which gets the counts so far."""
        for labels, cell in self._cells.items():
            cell.move(metric.labels(*labels))
        self.metric, self.gathers = metric, False

    def _admit(self, labels: tuple[object, ...]) -> CellT:
        values = tuple(
            self._cap(name, _text(value)) for name, value in zip(self.names, labels, strict=True)
        )
        cell = self._cells.get(values)
        if cell is None and len(self._cells) >= MAX_CHILDREN:
            values = tuple(
                value if name in CLOSED_LABELS else OTHER
                for name, value in zip(self.names, values, strict=True)
            )
            cell = self._cells.get(values)
        if cell is None:
            # Cache under the capped values; the requested ones are unbounded.
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


def _sample(child: MetricWrapperBase, suffix: str) -> float:
    """Return the value of a child's sample."""
    samples = (sample for metric in child.collect() for sample in metric.samples)
    return next((each.value for each in samples if each.name.endswith(suffix)), 0.0)


def _multiprocess() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ or "prometheus_multiproc_dir" in os.environ


def _text(value: object) -> str:
    if value is None:
        return UNKNOWN
    text = value if isinstance(value, str) else type(value).__name__
    return text[:MAX_LABEL_LENGTH].encode("utf-8", "replace").decode()
