"""Private names of prometheus_client and OpenTelemetry that have no public counterpart.

`tests/sdk/telemetry/test_telemetry_compat.py` checks each against the installed versions.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Histogram

_UNKNOWN: Final[Any] = object()
_was_read: Final[list[bool]] = []


class HistogramFields(NamedTuple):
    """Upper bounds, bucket counters and sum of a histogram child."""

    bounds: Sequence[float]
    buckets: Sequence[Any]
    total: Any


def histogram_fields(child: Histogram) -> HistogramFields | None:
    """Return the fields of a histogram, which has no bulk observe; None if they are missing."""
    try:
        return HistogramFields(child._upper_bounds, child._buckets, child._sum)  # noqa: SLF001
    except AttributeError:
        return None


def registered_collector(registry: CollectorRegistry, name: str) -> object | None:
    """Return the metric that is registered by a name; None without one."""
    return getattr(registry, "_names_to_collectors", {}).get(name)


def label_names(metric: object) -> tuple[str, ...]:
    """Return the names of a metric's labels."""
    return tuple(getattr(metric, "_labelnames", ()))


def global_tracer_provider() -> trace.TracerProvider | None:
    """Return the program's provider without reading the environment, if possible."""
    # Until a provider is set, the public function reads an environment variable on each call, which
    # costs as much as writing an event. It is called once before the private name is read.
    if _was_read:
        provider: trace.TracerProvider | None = getattr(trace, "_TRACER_PROVIDER", _UNKNOWN)
        if provider is not _UNKNOWN:
            return provider
    _was_read.append(True)
    return trace.get_tracer_provider()
