"""The Prometheus series of the contract: names, labels, buckets, and when they count."""

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from tracereel import current_execution, metrics, set_tokens_remaining, traced_agent

Deliver = Callable[[], list[dict[str, Any]]]

SERIES = {
    "agent_executions": ("counter", ("agent_name", "status")),
    "agent_errors": ("counter", ("agent_name", "error_type", "error_category")),
    "agent_retries": ("counter", ("agent_name", "retry_reason")),
    "agent_fallbacks": ("counter", ("primary_agent", "fallback_agent")),
    "agent_execution_duration_seconds": ("histogram", ("agent_name",)),
    "llm_request_duration_seconds": ("histogram", ("llm_provider",)),
    "agent_confidence": ("gauge", ("agent_name",)),
    "llm_tokens_remaining": ("gauge", ("llm_provider",)),
}


def test_all_series_of_the_contract_are_registered(registry: CollectorRegistry) -> None:
    found = metrics.metrics_of(registry)
    named = {
        metric._name: (metric._type, metric._labelnames)
        for metric in vars(found).values()
        if hasattr(metric, "_labelnames")
    }
    assert SERIES.items() <= named.items()
    assert {family.name for family in registry.collect()} >= SERIES.keys()
    ours = set(named) - set(SERIES)
    assert all(name.startswith("tracereel_sdk_") for name in ours)


def test_buckets_are_those_of_the_contract(registry: CollectorRegistry) -> None:
    found = metrics.metrics_of(registry)
    assert found.duration._upper_bounds == [0.1, 0.5, 1, 2, 5, 10, 30, 60, float("inf")]
    assert found.llm_duration._upper_bounds == [0.5, 1, 2, 5, 10, 20, 30, float("inf")]


def test_an_execution_counts_once_at_its_end(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    value = registry.get_sample_value

    @traced_agent("a", llm_provider="qwen")
    def work(fails: bool) -> None:
        execution = current_execution()
        assert execution is not None
        execution.set(confidence=0.7, llm_duration_seconds=1.5)
        assert value("agent_executions_total", {"agent_name": "a", "status": "success"}) in (
            None,
            1,
        )
        if fails:
            raise TimeoutError

    work(False)
    with pytest.raises(TimeoutError):
        work(True)
    assert value("agent_executions_total", {"agent_name": "a", "status": "success"}) == 1
    assert value("agent_executions_total", {"agent_name": "a", "status": "failed"}) == 1
    labels = {"agent_name": "a", "error_type": "TimeoutError", "error_category": "transient"}
    assert value("agent_errors_total", labels) == 1
    assert value("agent_execution_duration_seconds_count", {"agent_name": "a"}) == 2
    assert value("llm_request_duration_seconds_sum", {"llm_provider": "qwen"}) == 3.0
    assert value("agent_confidence", {"agent_name": "a"}) == 0.7


def test_confidence_and_remaining_tokens_are_absent_until_known(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    traced_agent("a")(lambda: None)()
    assert registry.get_sample_value("agent_confidence", {"agent_name": "a"}) is None
    assert registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "qwen"}) is None
    set_tokens_remaining("qwen", 1000, registry=registry)
    assert registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "qwen"}) == 1000


def test_series_are_registered_once_per_registry(registry: CollectorRegistry) -> None:
    assert metrics.metrics_of(registry) is metrics.metrics_of(registry)
    assert metrics.metrics_of(CollectorRegistry()) is not metrics.metrics_of(registry)


def test_a_series_the_program_already_has_is_used(registry: CollectorRegistry) -> None:
    own = Counter("agent_executions_total", "own", ["agent_name", "status"], registry=registry)
    assert metrics.metrics_of(registry).executions is own


def test_one_of_another_shape_is_left_alone(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    Gauge("agent_executions_total", "something else", registry=registry)
    event = {"event_type": "agent.execution.completed", "agent_name": "a", "confidence": None}
    metrics.metrics_of(registry).observe(event, 0.1)
    assert "another shape" in caplog.text
