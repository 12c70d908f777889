"""Series of the event contract, which a program may also define itself.

Their names are not reserved in the registry: a program that registers a metric of the same name,
kind and labels gets it, with the counts so far, and from then on the SDK counts in it.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from tracereel._runtime import guard
from tracereel._telemetry.compat import label_names, registered_collector
from tracereel._telemetry.metric_buffer import Series, in_turn


class SharedSeries(Collector):
    """Collector of the contract's series in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = ref(registry)
        self._series: list[tuple[type[MetricWrapperBase], str, Series[Any]]] = []

    def add(self, kind: type[MetricWrapperBase], name: str, series: Series[Any]) -> None:
        """Expose a series until the program has its own."""
        self._series.append((kind, name, series))

    def describe(self) -> Iterable[Metric]:
        """Reserve no names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the series that the program has not registered itself."""
        in_turn(self._hand_over)
        registry = self._registry()
        for kind, name, series in self._series:
            if registry is None or registered(registry, kind, name, series.names) is None:
                yield from series.metric.collect()

    def _hand_over(self) -> None:
        registry = self._registry()
        for kind, name, series in self._series:
            if registry is not None:
                theirs = registered(registry, kind, name, series.names)
                if isinstance(theirs, MetricWrapperBase) and theirs is not series.metric:
                    series.move_to(theirs)


def registered(
    registry: CollectorRegistry,
    kind: type[MetricWrapperBase],
    name: str,
    labels: Sequence[str],
) -> MetricWrapperBase | bool | None:
    """Return a metric that is registered by this name; False if its shape is another."""
    there = registered_collector(registry, name)
    if there is None:
        return None
    if isinstance(there, kind) and label_names(there) == tuple(labels):
        return there
    guard.warn_once(
        f"metric:{name}",
        "tracereel: %s is already registered with another shape; ours is not exposed",
        name,
    )
    return False
