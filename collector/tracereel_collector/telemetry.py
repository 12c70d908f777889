"""Tables of the collector's metrics, and its log configuration."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

Counts = Callable[[], dict[tuple[str, str], int]]


def _metric(
    kind: Callable[..., Counter | Gauge | Histogram],
    name: str,
    text: str,
    *labels: str,
    **options: Any,
) -> Any:
    """Define one metric: type, name, help, labels, and options such as buckets."""
    return field(metadata={"make": partial(kind, name, text, labels, **options)})


class _MetricGroup:
    """A dataclass in which each field defines a metric."""

    __slots__ = ()

    @classmethod
    def register(cls, registry: CollectorRegistry) -> Self:
        """Create the metrics of the group in a registry."""
        rows = fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass
        return cls(**{row.name: row.metadata["make"](registry=registry) for row in rows})


@dataclass(frozen=True, slots=True)
class DeliveryMetrics(_MetricGroup):
    """Metrics of inserts into the store."""

    retries: Counter = _metric(
        Counter,
        "tracereel_insert_retries_total",
        "Inserts tried again because the store did not take them.",
        "kind",
    )
    seconds: Histogram = _metric(
        Histogram,
        "tracereel_insert_seconds",
        "Time of one successful insert.",
        "kind",
        buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    )
    unknown: Counter = _metric(
        Counter,
        "tracereel_unknown_refusals_total",
        "Batches taken apart because the store kept refusing them with a code that is not known;"
        " because of some records, or because of the store, which took none.",
        *("kind", "because_of"),
    )
    forgotten: Counter = _metric(
        Counter,
        "tracereel_forgotten_inserts_total",
        "Records inserted again because the store knew their token and had no row of them.",
        "kind",
    )


@dataclass(frozen=True, slots=True)
class AlertMetrics(_MetricGroup):
    """Metrics of notifications to the webhook."""

    sent: Counter = _metric(
        Counter,
        "tracereel_alert_notifications_total",
        "Alerts told to the webhook, or not taken by it and to be told again.",
        "outcome",
    )


@dataclass(frozen=True, slots=True)
class ThrottleMetrics(_MetricGroup):
    """Metrics of requests refused because a bounded resource was in use."""

    refused: Counter = _metric(
        Counter,
        "tracereel_throttled_total",
        "Requests refused because a resource was in use: by its tenant's share, or all of it.",
        *("resource", "reason"),
    )


@dataclass(frozen=True, slots=True)
class HttpMetrics(_MetricGroup):
    """Metrics of HTTP requests."""

    requests: Counter = _metric(
        Counter,
        "tracereel_http_requests_total",
        "Requests answered, by route and status code.",
        *("route", "code"),
    )
    seconds: Histogram = _metric(
        Histogram,
        "tracereel_http_seconds",
        "Time from the first byte of a request to its answer.",
        "route",
        buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    )


@dataclass(frozen=True, slots=True)
class OtlpMetrics(_MetricGroup):
    """Metrics of OTLP records that were refused or changed."""

    refused: Counter = _metric(
        Counter,
        "tracereel_otlp_refused_total",
        "Records of OTLP requests that were refused, by reason.",
        *("kind", "reason"),
    )
    mended: Counter = _metric(
        Counter,
        "tracereel_otlp_mended_total",
        "What was changed in OTLP requests so that they could be stored.",
        *("kind", "what"),
    )


@dataclass(frozen=True, slots=True)
class TailMetrics(_MetricGroup):
    """Metrics of the live tail."""

    begun: Counter = _metric(Counter, "tracereel_tail_streams_total", "Live streams begun.")
    ended: Counter = _metric(
        Counter, "tracereel_tail_ended_total", "Live streams ended, by reason.", "reason"
    )
    refused: Counter = _metric(
        Counter,
        "tracereel_tail_refused_total",
        "Live streams refused because as many as may are open.",
    )
    skipped: Counter = _metric(
        Counter,
        "tracereel_tail_skipped_bodies_total",
        "Bodies not shown live because the tail could not follow; readers are told.",
    )


@dataclass(frozen=True, slots=True)
class ForwardMetrics(_MetricGroup):
    """Metrics of copies forwarded to another endpoint."""

    sent: Counter = _metric(
        Counter,
        "tracereel_forwarded_records_total",
        "Records that the endpoint forwarded to has taken.",
        "kind",
    )
    dropped: Counter = _metric(
        Counter,
        "tracereel_forward_dropped_total",
        "Records that were not forwarded, by reason.",
        *("kind", "reason"),
    )
    retries: Counter = _metric(
        Counter,
        "tracereel_forward_retries_total",
        "Requests to the endpoint forwarded to that are tried again.",
        "kind",
    )
    queue_bytes: Gauge = _metric(
        Gauge,
        "tracereel_forward_queue_bytes",
        "Bytes that wait to be forwarded.",
        multiprocess_mode="sum",
    )


@dataclass(frozen=True, slots=True)
class RetentionMetrics(_MetricGroup):
    """Metrics of rows deleted because of their age."""

    deleted: Counter = _metric(
        Counter,
        "tracereel_retention_deleted_rows_total",
        "Rows removed because their tenant keeps none so old.",
        "table",
    )
    sweeps: Counter = _metric(
        Counter,
        "tracereel_retention_sweeps_total",
        "Times that what is too old was looked for, and whether that came to its end.",
        "outcome",
    )


SELF_HEADER = "x-tracereel-self"
"""Header of exports of a collector's own spans and log lines: identifies the collector."""


@dataclass(frozen=True, slots=True)
class SelfMetrics(_MetricGroup):
    """Metrics of the export of the collector's own spans and log lines."""

    sent: Counter = _metric(
        Counter,
        "tracereel_self_sent_total",
        "Own spans and log lines that the endpoint named has taken.",
        "signal",
    )
    dropped: Counter = _metric(
        Counter,
        "tracereel_self_dropped_total",
        "Own spans and log lines that were not sent, by reason.",
        *("signal", "reason"),
    )


class QueueMetrics(Collector):
    """Conservation counters, read from the queue at each scrape."""

    def __init__(
        self, counts: Counts, pending_bytes: Callable[[], int], engine_restarts: Callable[[], int]
    ) -> None:
        self._counts = counts
        self._pending_bytes = pending_bytes
        self._engine_restarts = engine_restarts

    def collect(self) -> Iterator[Metric]:
        """Yield one family per counter with a sample per kind; rejections also by reason."""
        counts = self._counts()
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
        yield _rejected(counts)
        pending = GaugeMetricFamily(
            "tracereel_records_pending", "Records acknowledged and not yet stored.", labels=["kind"]
        )
        for kind in kinds:
            gone = sum(counts.get((name, kind), 0) for name in ("stored", "duplicate"))
            aside = counts.get(("quarantined", kind), 0) - counts.get(("retried", kind), 0)
            pending.add_metric([kind], counts.get(("appended", kind), 0) - gone - aside)
        yield pending
        yield GaugeMetricFamily(
            "tracereel_queue_pending_bytes",
            "Bytes acknowledged and not yet stored.",
            value=self._pending_bytes(),
        )
        yield CounterMetricFamily(
            "tracereel_engine_restarts",
            "Times the embedded engine was started again.",
            value=self._engine_restarts(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Delivery delay and free space of the queue and its disk."""

    oldest_seconds: float = 0.0
    quarantined_bytes: int = 0
    limit_bytes: int = 0
    disk_free_bytes: int = 0
    disk_kept_bytes: int = 0


class PressureMetrics(Collector):
    """Delivery delay and free space, read at each scrape."""

    def __init__(self, pressure: Callable[[], Pressure]) -> None:
        self._pressure = pressure

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge per value."""
        now = self._pressure()
        for name, doc, value in (
            ("queue_oldest_seconds", "Age of the oldest record not stored.", now.oldest_seconds),
            ("queue_quarantined_bytes", "Bytes in quarantine.", now.quarantined_bytes),
            ("queue_limit_bytes", "Bytes that may wait, quarantine included.", now.limit_bytes),
            ("disk_free_bytes", "Free bytes where the queue lives.", now.disk_free_bytes),
            ("disk_kept_bytes", "Free bytes below which nothing is taken.", now.disk_kept_bytes),
        ):
            yield GaugeMetricFamily(f"tracereel_{name}", doc, value=value)


class SessionMetrics(Collector):
    """Count of events with another user's session, read from the queue."""

    def __init__(self, mismatches: Callable[[], int]) -> None:
        self._mismatches = mismatches

    def collect(self) -> Iterator[Metric]:
        """Yield the one sample."""
        yield CounterMetricFamily(
            "tracereel_session_user_mismatches",
            "Events flagged session_user_mismatch; kept in the queue, so it survives restarts.",
            value=self._mismatches(),
        )


def _rejected(counts: dict[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(
        "tracereel_records_rejected",
        "Records rejected at the door, by reason; kept in the queue, so it survives restarts.",
        labels=["kind", "reason"],
    )
    for (name, kind), value in sorted(counts.items()):
        what, _, reason = name.partition(":")
        if what == "rejected" and reason:
            family.add_metric([kind, reason], value)
    return family


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


class UnpricedModelMetric(Collector):
    """Count of calls to models without a price.

    It has no model label, because `/metrics` is public.
    """

    def __init__(self, calls: Callable[[], int]) -> None:
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Yield the one sample."""
        yield GaugeMetricFamily(
            "tracereel_unpriced_model_calls",
            "Model calls stored whose cost is unknown because no price is known for the model.",
            value=self._calls(),
        )


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
