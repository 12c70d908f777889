"""Tables of the collector's metrics, and its log configuration."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

Counts = Callable[[], dict[tuple[str, str], int]]


def _metric(
    kind: type[Counter | Gauge | Histogram], name: str, text: str, *labels: str, **options: Any
) -> Any:
    """Define one metric: type, name, help text, labels, and options such as buckets."""
    return partial(kind, f"tracereel_{name}", text, labels, **options)


_counter = partial(_metric, Counter)


class MetricGroup:
    """A class whose attributes define metrics: name, help text and labels."""

    @classmethod
    def register(cls, registry: CollectorRegistry) -> Self:
        """Create the metrics of the group in a registry."""
        group = cls()
        for name, make in vars(cls).items():
            if isinstance(make, partial):
                setattr(group, name, make(registry=registry))
        return group


class AccessMetrics(MetricGroup):
    """Metrics of refused requests, connections ended early and lost audit lines."""

    refused: Counter = _counter(
        "access_refused_total", "Requests refused for who sent them, by reason.", "reason"
    )
    connections: Counter = _counter(
        "connections_ended_total", "Connections ended by the collector, by reason.", "reason"
    )
    audit_lost: Counter = _counter(
        "audit_lines_lost_total",
        "Lines of the audit log that could not be written, by reason.",
        "reason",
    )


class DeliveryMetrics(MetricGroup):
    """Metrics of inserts into the store."""

    retries: Counter = _counter(
        "insert_retries_total", "Inserts retried because the store did not accept them.", "kind"
    )
    seconds: Histogram = _metric(
        Histogram,
        "insert_seconds",
        "Time of one successful insert.",
        "kind",
        buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    )
    unknown: Counter = _counter(
        "unknown_refusals_total",
        "Batches taken apart because the store kept refusing them with a code that is not known;"
        " because of some records, or because of the store, which accepted none.",
        "kind",
        "because_of",
    )
    forgotten: Counter = _counter(
        "forgotten_inserts_total",
        "Records inserted again because the store knew their token and had no row of them.",
        "kind",
    )


class AlertMetrics(MetricGroup):
    """Metrics of notifications to the webhook."""

    sent: Counter = _counter(
        "alert_notifications_total", "Alerts sent to the webhook, by outcome.", "outcome"
    )


class ThrottleMetrics(MetricGroup):
    """Metrics of requests refused because a bounded resource was in use."""

    refused: Counter = _counter(
        "throttled_total",
        "Requests refused because a resource was in use: by its tenant's share, or all of it.",
        "resource",
        "reason",
    )


class HttpMetrics(MetricGroup):
    """Metrics of HTTP requests."""

    requests: Counter = _counter(
        "http_requests_total", "Requests answered, by route and status code.", "route", "code"
    )
    seconds: Histogram = _metric(
        Histogram,
        "http_seconds",
        "Time from the first byte of a request to its answer.",
        "route",
        buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    )


class OtlpMetrics(MetricGroup):
    """Metrics of OTLP records that were refused or changed."""

    refused: Counter = _counter(
        "otlp_refused_total",
        "Records of OTLP requests that were refused, by reason.",
        "kind",
        "reason",
    )
    mended: Counter = _counter(
        "otlp_mended_total",
        "What was changed in OTLP requests so that they could be stored.",
        "kind",
        "what",
    )


class TailMetrics(MetricGroup):
    """Metrics of the live tail."""

    begun: Counter = _counter("tail_streams_total", "Live streams begun.")
    ended: Counter = _counter("tail_ended_total", "Live streams ended, by reason.", "reason")
    refused: Counter = _counter(
        "tail_refused_total", "Live streams refused because too many were open."
    )
    skipped: Counter = _counter(
        "tail_skipped_bodies_total", "Bodies not shown live because the tail could not keep up."
    )


class ForwardMetrics(MetricGroup):
    """Metrics of copies forwarded to another endpoint."""

    sent: Counter = _counter(
        "forwarded_records_total", "Records that the forwarding endpoint accepted.", "kind"
    )
    dropped: Counter = _counter(
        "forward_dropped_total", "Records that were not forwarded, by reason.", "kind", "reason"
    )
    retries: Counter = _counter(
        "forward_retries_total", "Requests to the forwarding endpoint that were retried.", "kind"
    )
    queue_bytes: Gauge = _metric(
        Gauge,
        "forward_queue_bytes",
        "Bytes that wait to be forwarded.",
        multiprocess_mode="sum",
    )


class RelayMetrics(MetricGroup):
    """Metrics of relays to the other members of a group."""

    retries: Counter = _counter(
        "relay_retries_total", "Requests with relays that were not answered well, by peer.", "peer"
    )


class RetentionMetrics(MetricGroup):
    """Metrics of rows deleted because of their age."""

    deleted: Counter = _counter(
        "retention_deleted_rows_total", "Rows deleted because of their age.", "table"
    )
    sweeps: Counter = _counter(
        "retention_sweeps_total", "Searches for rows that are too old, by outcome.", "outcome"
    )


class SettlingMetrics(MetricGroup):
    """Metrics of settling, by which each call is counted once."""

    traces: Counter = _counter(
        "settled_traces_total",
        "Traces whose sums were corrected, by outcome; too_long: left as they came.",
        "outcome",
    )
    waiting: Gauge = _metric(
        Gauge,
        "unsettled_traces",
        "Traces with new rows whose sums are to be corrected, at most 5,000.",
        multiprocess_mode="max",
    )


SELF_HEADER = "x-tracereel-self"
"""Header of exports of a collector's own spans and log lines: identifies the collector."""


class SelfMetrics(MetricGroup):
    """Metrics of the export of the collector's own spans and log lines."""

    sent: Counter = _counter(
        "self_sent_total", "Own spans and log lines that the endpoint accepted.", "signal"
    )
    dropped: Counter = _counter(
        "self_dropped_total",
        "Own spans and log lines that were not sent, by reason.",
        "signal",
        "reason",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Delivery delay and free space of the queue and its disk."""

    oldest_seconds: float = 0.0
    quarantined_bytes: int = 0
    limit_bytes: int = 0
    disk_free_bytes: int = 0
    disk_kept_bytes: int = 0


SCRAPED: Final = {
    "queue_pending_bytes": (GaugeMetricFamily, "Bytes acknowledged and not yet stored."),
    "queue_oldest_seconds": (GaugeMetricFamily, "Age of the oldest record not stored."),
    "queue_quarantined_bytes": (GaugeMetricFamily, "Bytes in quarantine."),
    "queue_limit_bytes": (GaugeMetricFamily, "Bytes that may wait, quarantine included."),
    "disk_free_bytes": (GaugeMetricFamily, "Free bytes where the queue lives."),
    "disk_kept_bytes": (GaugeMetricFamily, "Free bytes below which nothing is accepted."),
    "engine_restarts": (CounterMetricFamily, "Restarts of the embedded engine."),
    "session_user_mismatches": (
        CounterMetricFamily,
        "Events flagged session_user_mismatch; kept in the queue, so it survives restarts.",
    ),
    "clock_jump_seconds": (
        GaugeMetricFamily,
        "Wall clock minus trusted time while the wall clock is not believed, else 0.",
    ),
    "clock_held_seconds": (
        GaugeMetricFamily,
        "Uptime for which a jump that is not believed has held.",
    ),
    "clock_corrections": (
        CounterMetricFamily,
        "Jumps of the wall clock that were believed in the end.",
    ),
    # Without a model label, because `/metrics` is public.
    "unpriced_model_calls": (
        GaugeMetricFamily,
        "Model calls stored whose cost is unknown because no price is known for the model.",
    ),
}
"""Type and help text of the metrics with one value that are read at each scrape."""


class ScrapedMetrics(Collector):
    """Conservation counters and the values of `SCRAPED`, read at each scrape."""

    def __init__(self, counts: Counts, values: Callable[[], Mapping[str, float]]) -> None:
        self._counts = counts
        self._values = values

    def collect(self) -> Iterator[Metric]:
        """Yield one family per counter with a sample per kind; rejections also by reason."""
        yield from _record_counts(self._counts())
        for name, value in self._values().items():
            family, text = SCRAPED[name]
            yield family(f"tracereel_{name}", text, value=value)


def _record_counts(counts: dict[tuple[str, str], int]) -> Iterator[Metric]:
    kinds = sorted({kind for _, kind in counts})
    for name in sorted({name for name, _ in counts if ":" not in name} - {"rejected"}):
        family = CounterMetricFamily(
            f"tracereel_records_{name}",
            f"Records {name}; kept in the queue, so it survives restarts.",
            labels=["kind"],
        )
        for kind in kinds:
            family.add_metric([kind], counts.get((name, kind), 0))
        yield family
    rejected = CounterMetricFamily(
        "tracereel_records_rejected",
        "Records rejected by ingest, by reason; kept in the queue, so it survives restarts.",
        labels=["kind", "reason"],
    )
    for (name, kind), value in sorted(counts.items()):
        if name.startswith("rejected:"):
            rejected.add_metric([kind, name.removeprefix("rejected:")], value)
    yield rejected
    pending = GaugeMetricFamily(
        "tracereel_records_pending", "Records acknowledged and not yet stored.", labels=["kind"]
    )
    for kind in kinds:
        gone = sum(counts.get((name, kind), 0) for name in ("stored", "duplicate", "relayed"))
        aside = counts.get(("quarantined", kind), 0) - counts.get(("retried", kind), 0)
        pending.add_metric([kind], counts.get(("appended", kind), 0) - gone - aside)
    yield pending


def name_thread(name: str) -> None:
    """Name the calling thread for `top -H` and the benchmarks, if the system supports it."""
    try:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="ascii")
    except OSError:
        pass  # not supported on this system; the name is optional


class SharedMetrics(MultiProcessCollector):
    """Sum of the metric files of all processes.

    A new file is empty at first, and stays empty if its process is killed then. Empty files are skipped,
    because reading one fails.
    """

    def __init__(self, registry: CollectorRegistry, directory: str) -> None:
        super().__init__(registry, path=directory)  # type: ignore[no-untyped-call]
        self._directory = Path(directory)

    def collect(self) -> Iterable[Metric]:
        """Merge all files that are not empty."""
        files = [str(file) for file in self._directory.glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = self.merge(files, accumulate=True)  # type: ignore[no-untyped-call]
        return merged


METRIC_FILES = ("counter", "histogram", "summary", "gauge_all", "gauge_sum")
"""Files that prometheus_client maps in each process, by type and how gauges are merged."""
METRIC_FILE_BYTES = 1 << 20


def share_metrics(directory: Path, *, slot: str) -> None:
    """Share the metrics created from now on with the other processes.

    A replacement process reuses the slot of its predecessor: counts continue and no files accumulate.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for kind in METRIC_FILES:
        _allocate(directory / f"{kind}_{slot}.db")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]


def _allocate(file: Path) -> None:
    """Reserve the blocks of a mapped file.

    On a full disk, a write to an unreserved block kills the process.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        size = max(METRIC_FILE_BYTES, os.fstat(descriptor).st_size)
        with contextlib.suppress(OSError):
            os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


_tap: Callable[[structlog.typing.EventDict], None] | None = None


def tap_log_lines(tap: Callable[[structlog.typing.EventDict], None] | None) -> None:
    """Also pass every log line to a function; None stops it."""
    global _tap
    _tap = tap


def _tapped(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _tap is not None:
        _tap(line)
    return line


def configure_logging(*, json_lines: bool | None = None) -> None:
    """Configure log lines on stderr: readable on a terminal, JSON elsewhere."""
    as_json = not sys.stderr.isatty() if json_lines is None else json_lines
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _tapped,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
