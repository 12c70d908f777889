"""Metrics are updated in batches without a visible difference."""

import threading

from prometheus_client import CollectorRegistry, Counter

from tests.support.waiting import wait_until
from tracereel import semconv, traced_agent, traced_tool
from tracereel._runtime import guard
from tracereel._telemetry import metric_buffer
from tracereel._telemetry.metrics import metrics_of
from tracereel.metrics import set_tokens_remaining

TOOL = {"event_type": semconv.TOOL_CALLED, "tool_name": "look", "status": "success"}


def calls_of(registry, tool="look"):
    labels = {"tool_name": tool, "status": "success"}
    return registry.get_sample_value("tracereel_tool_calls_total", labels)


def test_collection_includes_every_buffered_event(recorded, registry):
    @traced_tool("look")
    def look():
        return 1

    for number in range(1, 4):
        look()
        assert calls_of(registry) == number
    assert len(metric_buffer.in_turn._waiting) == 0


def test_gauges_show_the_last_value(recorded, registry):
    for left in (3, 2, 1):
        set_tokens_remaining("acme", left)

    assert registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "acme"}) == 1


def test_buffered_events_are_bounded_without_collection():
    registry = CollectorRegistry()
    counting = metrics_of(registry)

    for _ in range(3 * metric_buffer.MAX_WAITING):
        counting.observe(TOOL, 0.1)
        assert len(metric_buffer.in_turn._waiting) < metric_buffer.MAX_WAITING

    assert calls_of(registry) == 3 * metric_buffer.MAX_WAITING


def test_buffered_counts_are_exact_with_threads():
    registry = CollectorRegistry()
    counting = metrics_of(registry)

    def count():
        for _ in range(1_000):
            counting.observe(TOOL, 0.1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        calls_of(registry)
    assert calls_of(registry) == 4_000


def test_an_event_that_cannot_be_counted_spoils_no_other(monkeypatch):
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    registry = CollectorRegistry()
    counting = metrics_of(registry)
    guard.listen(counting.count_internal_error)

    counting.observe({"event_type": semconv.TOOL_CALLED}, 0.1)
    counting.observe(TOOL, 0.1)

    assert calls_of(registry) == 1
    found = registry.get_sample_value("tracereel_sdk_internal_errors_total", {"where": "metrics"})
    assert found == 1


def test_a_series_of_the_programs_own_is_counted_at_once(recorded):
    registry = CollectorRegistry()
    own = Counter("agent_executions", "Mine.", ["agent_name", "status"], registry=registry)
    counting = metrics_of(registry)

    counting.observe(
        {"event_type": semconv.EXECUTION_COMPLETED, "agent_name": "a", "confidence": None}, 0.1
    )

    assert own.labels("a", "success")._value.get() == 1


def test_buffered_counts_are_flushed_by_delivery(recorded, registry):
    @traced_agent("planner")
    def plan():
        return 1

    plan()
    recorded()

    wait_until(
        lambda: not metric_buffer.in_turn._waiting, message="what was delivered is not counted"
    )
    labels = {"agent_name": "planner", "status": "success"}
    assert registry.get_sample_value("agent_executions_total", labels) == 1
