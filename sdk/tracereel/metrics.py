"""Prometheus series: those of the contract (names, labels, buckets exactly) and the SDK's own."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from tracereel import _guard, semconv

M = TypeVar("M", bound=MetricWrapperBase)

# A fork copies the locks inside prometheus_client as they are: none of ours may be held then.
_gate = threading.RLock()
os.register_at_fork(
    before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release
)

UNKNOWN: Final = "unknown"
"""Label value where the event says null."""


class Metrics:
    """The series in one registry. Label children are kept: looking them up costs most."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Only for the time of registering: holding it would keep the registry alive for ever.
        self._registry: CollectorRegistry | None = registry
        self._children: dict[tuple[str, ...], Any] = {}
        self.executions = self._counter(
            semconv.AGENT_EXECUTIONS, "Agent executions ended, by status.", ["agent_name", "status"]
        )
        self.errors = self._counter(
            semconv.AGENT_ERRORS,
            "Failed agent executions.",
            ["agent_name", "error_type", "error_category"],
        )
        self.retries = self._counter(
            semconv.AGENT_RETRIES, "Retries of agents.", ["agent_name", "retry_reason"]
        )
        self.fallbacks = self._counter(
            semconv.AGENT_FALLBACKS,
            "Times a backup agent took over.",
            ["primary_agent", "fallback_agent"],
        )
        self.duration = self._histogram(
            semconv.AGENT_DURATION,
            "Duration of agent executions.",
            ["agent_name"],
            semconv.AGENT_DURATION_BUCKETS,
        )
        self.llm_duration = self._histogram(
            semconv.LLM_DURATION,
            "Duration of requests to the model.",
            ["llm_provider"],
            semconv.LLM_DURATION_BUCKETS,
        )
        self.confidence = self._gauge(
            semconv.AGENT_CONFIDENCE, "Latest confidence of an agent.", ["agent_name"]
        )
        self.tokens_remaining = self._gauge(
            semconv.LLM_TOKENS_REMAINING, "Tokens left in the quota.", ["llm_provider"]
        )
        self.events = self._counter(
            semconv.SDK_EVENTS,
            "Events of this process: recorded, delivered, rejected, dropped.",
            ["outcome"],
        )
        self.dropped = self._counter(
            semconv.SDK_DROPPED, "Events that were not recorded, by reason.", ["reason"]
        )
        self.internal_errors = self._counter(
            semconv.SDK_INTERNAL_ERRORS, "Errors of the SDK itself, swallowed.", ["where"]
        )

        self._registry = None

    def observe(self, event: Mapping[str, Any], seconds: float | None) -> None:
        """Count what an event says; only events that end an agent's execution say anything here."""
        kind = event["event_type"]
        with _gate:
            if kind == semconv.EXECUTION_COMPLETED:
                self._ended(event["agent_name"], semconv.SUCCESS, seconds)
                if (confidence := event["confidence"]) is not None:
                    self._child(self.confidence, event["agent_name"]).set(confidence)
            elif kind == semconv.EXECUTION_FAILED:
                self._ended(event["agent_name"], semconv.FAILED, seconds)
                category = event["error_category"] or UNKNOWN
                self._child(self.errors, event["agent_name"], event["error_type"], category).inc()
            elif kind == semconv.EXECUTION_CANCELLED:
                self._ended(event["agent_name"], semconv.CANCELLED, seconds)

    def observe_llm(self, provider: str | None, seconds: float) -> None:
        """Count the duration of a request to a model."""
        with _gate:
            self._child(self.llm_duration, provider or UNKNOWN).observe(seconds)

    def count_events(self, outcome: str, amount: int = 1) -> None:
        """Count events of our own line: recorded, delivered, rejected or dropped."""
        with _gate:
            self._child(self.events, outcome).inc(amount)

    def count_drop(self, reason: str) -> None:
        """Count an event that could not be recorded."""
        with _gate:
            self._child(self.events, "dropped").inc()
            self._child(self.dropped, reason).inc()

    def count_internal_error(self, where: str) -> None:
        """Count an error of ours."""
        with _gate:
            self._child(self.internal_errors, where).inc()

    def _ended(self, agent: str, status: str, seconds: float | None) -> None:
        self._child(self.executions, agent, status).inc()
        if seconds is not None:
            self._child(self.duration, agent).observe(seconds)

    def _child(self, metric: M, *labels: str) -> M:
        key = (metric._name, *labels)  # noqa: SLF001
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return cast("M", child)

    def _counter(self, name: str, doc: str, labels: Sequence[str]) -> Counter:
        return self._register(Counter, name, doc, labels)

    def _gauge(self, name: str, doc: str, labels: Sequence[str]) -> Gauge:
        return self._register(Gauge, name, doc, labels)

    def _histogram(
        self, name: str, doc: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> Histogram:
        return self._register(Histogram, name, doc, labels, buckets=buckets)

    def _register(
        self,
        kind: type[M],
        name: str,
        doc: str,
        labels: Sequence[str],
        **options: Any,
    ) -> M:
        """A series in the registry; one the program has put there itself is used if it is alike."""
        try:
            return kind(name, doc, labels, registry=self._registry, **options)
        except ValueError:
            known: Mapping[str, object] = getattr(self._registry, "_names_to_collectors", {})
            there = known.get(name)
            if isinstance(there, kind) and tuple(getattr(there, "_labelnames", ())) == tuple(
                labels
            ):
                return there
            _guard.warn_once(
                f"metric:{name}",
                "tracereel: %s is already registered with another shape; ours is not exposed",
                name,
            )
            return kind(name, doc, labels, registry=None, **options)


_by_registry: WeakKeyDictionary[CollectorRegistry, Metrics] = WeakKeyDictionary()


def metrics_of(registry: CollectorRegistry | None) -> Metrics:
    """The series of a registry (the default one without an argument), registered at most once."""
    chosen = registry if registry is not None else REGISTRY
    with _gate:
        found = _by_registry.get(chosen)
        if found is None:
            found = _by_registry[chosen] = Metrics(chosen)
        return found


def set_tokens_remaining(
    llm_provider: str, tokens: float, *, registry: CollectorRegistry | None = None
) -> None:
    """Say how many tokens a provider's quota has left; until then the series does not exist."""
    with _guard.Guard("metrics"), _gate:
        metrics_of(registry).tokens_remaining.labels(llm_provider).set(tokens)
