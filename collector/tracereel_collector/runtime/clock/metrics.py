"""Metrics of the trusted clock."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tracereel_collector.runtime.clock.trusted import ClockStatus


class ClockMetrics(Collector):
    """Collector that reads the clock at every scrape."""

    def __init__(self, status: Callable[[], ClockStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield one sample of each metric."""
        status = self._status()
        yield GaugeMetricFamily(
            "tracereel_clock_jump_seconds",
            "Wall clock minus trusted time while the wall clock is not believed, else 0.",
            value=status.jump_seconds,
        )
        yield GaugeMetricFamily(
            "tracereel_clock_held_seconds",
            "Uptime for which a jump that is not believed has held.",
            value=status.held_seconds,
        )
        yield CounterMetricFamily(
            "tracereel_clock_corrections",
            "Jumps of the wall clock that were believed in the end.",
            value=status.corrections,
        )
