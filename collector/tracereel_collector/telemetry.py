"""The collector's own metrics and log lines; names begin with `tracereel_`."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

Counts = Callable[[], dict[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class DeliveryMetrics:
    """What delivery tells of itself."""

    retries: Counter
    seconds: Histogram
    unknown: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "DeliveryMetrics":
        """Make them in a registry."""
        return cls(
            retries=Counter(
                "tracereel_insert_retries_total",
                "Inserts tried again because the store did not take them.",
                ["kind"],
                registry=registry,
            ),
            seconds=Histogram(
                "tracereel_insert_seconds",
                "Time of one successful insert.",
                ["kind"],
                buckets=[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
                registry=registry,
            ),
            unknown=Counter(
                "tracereel_unknown_refusals_total",
                "Batches taken apart because the store kept refusing them with a code that is not known;"
                " because of some records, or because of the store, which took none.",
                ["kind", "because_of"],
                registry=registry,
            ),
        )


def alerts_sent(registry: CollectorRegistry) -> Counter:
    """What became of notifications to the webhook."""
    return Counter(
        "tracereel_alert_notifications_total",
        "Alerts told to the webhook, or not taken by it and to be told again.",
        ["outcome"],
        registry=registry,
    )


@dataclass(frozen=True, slots=True)
class HttpMetrics:
    """What the door tells of itself."""

    requests: Counter
    seconds: Histogram

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "HttpMetrics":
        """Make them in a registry."""
        return cls(
            requests=Counter(
                "tracereel_http_requests_total",
                "Requests answered, by route and status code.",
                ["route", "code"],
                registry=registry,
            ),
            seconds=Histogram(
                "tracereel_http_seconds",
                "Time from the first byte of a request to its answer.",
                ["route"],
                buckets=[0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
                registry=registry,
            ),
        )


@dataclass(frozen=True, slots=True)
class OtlpMetrics:
    """What the OTLP doors refused or had to change."""

    refused: Counter
    mended: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "OtlpMetrics":
        """Make them in a registry."""
        return cls(
            refused=Counter(
                "tracereel_otlp_refused_total",
                "Records of OTLP requests that were refused, by reason.",
                ["kind", "reason"],
                registry=registry,
            ),
            mended=Counter(
                "tracereel_otlp_mended_total",
                "What was changed in OTLP requests so that they could be stored.",
                ["kind", "what"],
                registry=registry,
            ),
        )


@dataclass(frozen=True, slots=True)
class TailMetrics:
    """What the live tail tells of itself."""

    begun: Counter
    ended: Counter
    refused: Counter
    skipped: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "TailMetrics":
        """Make them in a registry."""
        return cls(
            begun=Counter("tracereel_tail_streams_total", "Live streams begun.", registry=registry),
            ended=Counter(
                "tracereel_tail_ended_total",
                "Live streams ended, by reason.",
                ["reason"],
                registry=registry,
            ),
            refused=Counter(
                "tracereel_tail_refused_total",
                "Live streams refused because as many as may are open.",
                registry=registry,
            ),
            skipped=Counter(
                "tracereel_tail_skipped_bodies_total",
                "Bodies not shown live because the tail could not follow; readers are told.",
                registry=registry,
            ),
        )


@dataclass(frozen=True, slots=True)
class ForwardMetrics:
    """What became of copies sent on to another endpoint."""

    sent: Counter
    dropped: Counter
    retries: Counter
    queue_bytes: Gauge

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "ForwardMetrics":
        """Make them in a registry."""
        return cls(
            sent=Counter(
                "tracereel_forwarded_records_total",
                "Records that the endpoint forwarded to has taken.",
                ["kind"],
                registry=registry,
            ),
            dropped=Counter(
                "tracereel_forward_dropped_total",
                "Records that were not forwarded, by reason.",
                ["kind", "reason"],
                registry=registry,
            ),
            retries=Counter(
                "tracereel_forward_retries_total",
                "Requests to the endpoint forwarded to that are tried again.",
                ["kind"],
                registry=registry,
            ),
            queue_bytes=Gauge(
                "tracereel_forward_queue_bytes",
                "Bytes that wait to be forwarded.",
                multiprocess_mode="sum",
                registry=registry,
            ),
        )


@dataclass(frozen=True, slots=True)
class RetentionMetrics:
    """What was removed because it was too old."""

    deleted: Counter
    sweeps: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "RetentionMetrics":
        """Make them in a registry."""
        return cls(
            deleted=Counter(
                "tracereel_retention_deleted_rows_total",
                "Rows removed because their tenant keeps none so old.",
                ["table"],
                registry=registry,
            ),
            sweeps=Counter(
                "tracereel_retention_sweeps_total",
                "Times that what is too old was looked for, and whether that came to its end.",
                ["outcome"],
                registry=registry,
            ),
        )


SELF_HEADER = "x-tracereel-self"
"""On exports of a collector's own spans and log lines: whose they are."""


@dataclass(frozen=True, slots=True)
class SelfMetrics:
    """What became of the collector's own spans and log lines."""

    sent: Counter
    dropped: Counter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "SelfMetrics":
        """Make them in a registry."""
        return cls(
            sent=Counter(
                "tracereel_self_sent_total",
                "Own spans and log lines that the endpoint named has taken.",
                ["signal"],
                registry=registry,
            ),
            dropped=Counter(
                "tracereel_self_dropped_total",
                "Own spans and log lines that were not sent, by reason.",
                ["signal", "reason"],
                registry=registry,
            ),
        )


class QueueMetrics(Collector):
    """The conservation counters, read from the queue's own transactions when they are asked for."""

    def __init__(
        self, counts: Counts, pending_bytes: Callable[[], int], engine_restarts: Callable[[], int]
    ) -> None:
        self._counts = counts
        self._pending_bytes = pending_bytes
        self._engine_restarts = engine_restarts

    def collect(self) -> Iterator[Metric]:
        """One family per counter, one sample per kind; rejections also by reason."""
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
    """How late delivery is, and how much room the queue and its disk have left."""

    oldest_seconds: float = 0.0
    quarantined_bytes: int = 0
    limit_bytes: int = 0
    disk_free_bytes: int = 0
    disk_kept_bytes: int = 0


class PressureMetrics(Collector):
    """How late delivery is and how much room is left, looked up when it is asked for."""

    def __init__(self, pressure: Callable[[], Pressure]) -> None:
        self._pressure = pressure

    def collect(self) -> Iterator[Metric]:
        """One sample each."""
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
    """Events that claim a session of somebody else's, read from the queue's own transactions."""

    def __init__(self, mismatches: Callable[[], int]) -> None:
        self._mismatches = mismatches

    def collect(self) -> Iterator[Metric]:
        """One sample."""
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
    """Give the calling thread a name that `top -H` and the benchmarks show, where the system can."""
    try:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="ascii")
    except OSError:
        pass  # another system, or one that hides it: it was only a name


class SharedMetrics(MultiProcessCollector):
    """What all processes have counted, out of their files.

    A file is empty for a moment after it is made, or for ever if its process was killed just then:
    such a file has nothing to say, and reading it would fail.
    """

    def __init__(self, registry: CollectorRegistry, directory: str) -> None:
        super().__init__(registry, path=directory)  # type: ignore[no-untyped-call]
        self._directory = Path(directory)

    def collect(self) -> Iterable[Metric]:
        """The sums of all files that hold something."""
        files = [str(file) for file in self._directory.glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = self.merge(files, accumulate=True)  # type: ignore[no-untyped-call]
        return merged


def share_metrics(directory: Path, *, slot: str) -> None:
    """Let the metrics made from now on be counted together with those of the other processes.

    A slot is taken over by the process that replaces a dead one: its counts go on, files stay few.
    """
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]


class UnpricedModelMetric(Collector):
    """Calls of models whose price nobody told us, by model; the rarest share one label."""

    MOST_MODELS = 20

    def __init__(self, by_model: Callable[[], list[tuple[str, int]]]) -> None:
        self._by_model = by_model

    def collect(self) -> Iterator[Metric]:
        """One sample per model, the most called first."""
        family = GaugeMetricFamily(
            "tracereel_unpriced_model_calls",
            "Model calls stored whose cost is unknown because no price is known for the model.",
            labels=["model"],
        )
        counted = self._by_model()
        for model, calls in counted[: self.MOST_MODELS]:
            family.add_metric([model or "(not named)"], calls)
        if rest := counted[self.MOST_MODELS :]:
            family.add_metric(["(others)"], sum(calls for _, calls in rest))
        yield family


_tap: Callable[[structlog.typing.EventDict], None] | None = None


def tap_log_lines(tap: Callable[[structlog.typing.EventDict], None] | None) -> None:
    """Let somebody else see every log line too; None ends it."""
    global _tap
    _tap = tap


def _tapped(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _tap is not None:
        _tap(line)
    return line


def configure_logging(*, json_lines: bool | None = None) -> None:
    """Log lines to stderr: readable on a terminal, JSON elsewhere."""
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
