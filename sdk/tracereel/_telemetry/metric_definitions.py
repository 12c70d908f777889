"""Prometheus series of the SDK: names, labels, buckets and registration."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase

from tracereel import semconv
from tracereel._telemetry.metric_buffer import (
    CellT,
    CollectedCounter,
    CollectedGauge,
    CollectedHistogram,
    CounterCell,
    GaugeCell,
    HistogramCell,
    Series,
)
from tracereel._telemetry.shared_series import SharedSeries, registered

M = TypeVar("M", bound=MetricWrapperBase)

DELIVERY_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)
RATE_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
CALL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)


class RefreshedMetric(MetricWrapperBase):
    """Metric with a refresh callback that runs when it is collected."""

    refresh: Callable[[], None] | None = None

    def collect(self) -> Iterable[Metric]:
        if self.refresh is not None:
            self.refresh()
        return super().collect()


class RefreshedGauge(RefreshedMetric, Gauge):
    """Gauge with a refresh callback."""


class RefreshedCounter(RefreshedMetric, CollectedCounter):
    """Counter with a refresh callback."""


class SeriesSet:
    """All series in one registry: first the event contract's, then the SDK's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Only set during registration: a reference would keep the registry alive.
        self._registry: CollectorRegistry | None = registry
        self._shared: SharedSeries | None = SharedSeries(registry)
        self._register_contract()
        registry.register(self._shared)
        self._shared = None
        self._register_ours()
        self._registry = None

    def _register_contract(self) -> None:
        self.executions = self._counter(
            semconv.AGENT_EXECUTIONS, "Agent executions ended, by status.", "agent_name", "status"
        )
        self.errors = self._counter(
            semconv.AGENT_ERRORS,
            "Failed agent executions.",
            *("agent_name", "error_type", "error_category"),
        )
        self.retries = self._counter(
            semconv.AGENT_RETRIES, "Retries of agents.", "agent_name", "retry_reason"
        )
        self.fallbacks = self._counter(
            semconv.AGENT_FALLBACKS,
            "Times a backup agent took over.",
            *("primary_agent", "fallback_agent"),
        )
        self.duration = self._histogram(
            semconv.AGENT_DURATION,
            "Duration of agent executions.",
            semconv.AGENT_DURATION_BUCKETS,
            "agent_name",
        )
        self.llm_duration = self._histogram(
            semconv.LLM_DURATION,
            "Duration of requests to the model.",
            semconv.LLM_DURATION_BUCKETS,
            "llm_provider",
        )
        self.confidence = self._gauge(
            semconv.AGENT_CONFIDENCE, "Latest confidence of an agent.", "agent_name"
        )
        self.tokens_remaining = self._gauge(
            semconv.LLM_TOKENS_REMAINING, "Tokens left in the quota.", "llm_provider"
        )

    def _register_ours(self) -> None:
        counter, model = self._counter, ("llm_provider", "llm_model")
        self.attempts = counter(
            "tracereel_agent_attempts_total",
            "Attempts of ended executions, the first and each retry.",
            "agent_name",
        )
        self.repeated = counter(
            "tracereel_agent_repeated_executions_total",
            "Ended executions that another attempt has followed, by status; agent_executions_total"
            " less these is the operations.",
            *("agent_name", "status"),
        )
        self.agent_tokens = counter(
            "tracereel_agent_tokens_total",
            "Tokens of ended executions.",
            *("agent_name", "direction"),
        )
        self.agent_cost = counter(
            "tracereel_agent_cost_usd_total", "Cost of ended executions.", "agent_name"
        )
        self.agent_waste = counter(
            "tracereel_agent_wasted_cost_usd_total",
            "Cost that was for nothing: of executions that failed or were cancelled, and of failed"
            " attempts and abandoned routes in others.",
            *("agent_name", "cause"),
        )
        self.llm_calls = counter(
            "tracereel_llm_calls_total", "Calls to models ended, by status.", *model, "status"
        )
        self.llm_tokens = counter(
            "tracereel_llm_tokens_total", "Tokens of calls to models.", *model, "direction"
        )
        self.llm_cost = counter("tracereel_llm_cost_usd_total", "Cost of calls to models.", *model)
        self.llm_waste = counter(
            "tracereel_llm_wasted_cost_usd_total",
            "Cost of calls to models that failed or were cancelled.",
            *(*model, "status"),
        )
        self.first_token = self._histogram(
            "tracereel_llm_time_to_first_token_seconds",
            "Time until the first token of an answer.",
            CALL_BUCKETS,
            *model,
        )
        self.agent_first_token = self._histogram(
            "tracereel_agent_time_to_first_token_seconds",
            "Time until the first token of an agent that answers in parts.",
            CALL_BUCKETS,
            "agent_name",
        )
        self.agent_token_rate = self._histogram(
            "tracereel_agent_tokens_per_second",
            "How fast an agent that answers in parts gives them, once it has begun.",
            RATE_BUCKETS,
            "agent_name",
        )
        self.tool_calls = counter(
            "tracereel_tool_calls_total", "Calls of tools ended, by status.", "tool_name", "status"
        )
        self.tool_duration = self._histogram(
            "tracereel_tool_duration_seconds",
            "Duration of calls of tools.",
            CALL_BUCKETS,
            "tool_name",
        )
        self.pipelines = counter(
            "tracereel_pipelines_total", "Pipelines ended, by status.", "pipeline_type", "status"
        )
        self.events = counter(
            semconv.SDK_EVENTS,
            "Events of this process: recorded, delivered, rejected, dropped.",
            "outcome",
        )
        self.dropped = counter(
            semconv.SDK_DROPPED, "Events that were not recorded, by reason.", "reason"
        )
        self.spans = counter(
            semconv.SDK_SPANS,
            "Spans of other instrumentations on their way to the collector.",
            "outcome",
        )
        self.spans_dropped = counter(
            semconv.SDK_SPANS_DROPPED, "Those of them that were dropped, by reason.", "reason"
        )
        stages = (
            "Runs opened by this process, runs whose end the collector has (closed), and those of"
            " these that did not fail (succeeded)."
        )
        self.runs = Series(
            self._register(Counter, RefreshedCounter, semconv.SDK_RUNS, stages, ("stage",)),
            ("stage",),
            CounterCell,
        )
        self.delivery = self._register(
            Histogram,
            Histogram,
            semconv.SDK_DELIVERY,
            "Time from an event to the collector's answer for it.",
            (),
            buckets=DELIVERY_BUCKETS,
        )
        self.spooled_events = self._register(
            Gauge,
            RefreshedGauge,
            semconv.SDK_SPOOLED_EVENTS,
            "Events that wait for the collector.",
            (),
            multiprocess_mode="livesum",
        )
        self.spooled_bytes = self._register(
            Gauge,
            RefreshedGauge,
            semconv.SDK_SPOOLED_BYTES,
            "Bytes that wait for the collector.",
            (),
            multiprocess_mode="livesum",
        )
        self.redactions = counter(
            semconv.SDK_REDACTIONS, "Replacements in events and on spans, by rule.", "rule"
        )
        self.internal_errors = counter(
            semconv.SDK_INTERNAL_ERRORS, "Errors of the SDK itself, swallowed.", "where"
        )

    def _counter(self, name: str, doc: str, *labels: str) -> Series[CounterCell]:
        metric = self._register(Counter, CollectedCounter, name, doc, labels)
        return self._share(Counter, name, Series(metric, labels, CounterCell))

    def _gauge(self, name: str, doc: str, *labels: str) -> Series[GaugeCell]:
        metric = self._register(Gauge, CollectedGauge, name, doc, labels)
        return self._share(Gauge, name, Series(metric, labels, GaugeCell))

    def _histogram(
        self, name: str, doc: str, buckets: Sequence[float], *labels: str
    ) -> Series[HistogramCell]:
        metric = self._register(Histogram, CollectedHistogram, name, doc, labels, buckets=buckets)
        return self._share(Histogram, name, Series(metric, labels, HistogramCell))

    def _share(
        self, kind: type[MetricWrapperBase], name: str, series: Series[CellT]
    ) -> Series[CellT]:
        """Let the program define a series of the contract itself, now or later."""
        if self._shared is not None:
            self._shared.add(kind, name, series)
        return series

    def _register(
        self,
        kind: type[M],
        ours: type[M],
        name: str,
        doc: str,
        labels: Sequence[str],
        **options: Any,
    ) -> M:
        """Register a series, or return an existing one of the same kind and labels."""
        registry = self._registry
        theirs = registered(registry, kind, name, labels) if registry is not None else None
        if isinstance(theirs, kind):
            return theirs
        if theirs is False or self._shared is not None:
            registry = None
        return ours(name, doc, labels, registry=registry, **options)
