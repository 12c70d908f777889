"""Prometheus series of the contract: names, labels, buckets, and increments."""

import random
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

import tracereel
from tests.sdk.conftest import Child
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_execution,
    metrics,
    semconv,
    set_tokens_remaining,
    traced_agent,
    traced_llm,
)
from tracereel._core import sampling
from tracereel._core.executions import calls
from tracereel._export import spool
from tracereel._telemetry import metric_buffer
from tracereel.metrics import tokens_remaining_from_headers

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


BUCKETS = {
    "agent_execution_duration_seconds": ["0.1", "0.5", "1.0", "2.0", "5.0", "10.0", "30.0", "60.0"],
    "llm_request_duration_seconds": ["0.5", "1.0", "2.0", "5.0", "10.0", "20.0", "30.0"],
}


def exposed(registry: CollectorRegistry) -> dict[str, Metric]:
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def observe_one_of_each(registry: CollectorRegistry) -> None:
    """Observe one event of every counted type, as in the contract's examples."""
    who = {"agent_name": "a", "trace_id": "trc_main_abc123", "request_id": "r"}
    ended = {**who, "confidence": 0.9, "retry_count": 2}
    failed = {**who, "error_type": "LLMTimeoutError", "error_category": "transient"}
    money = {"llm_tokens_used": 423, "llm_prompt_tokens": 287, "llm_completion_tokens": 136}
    model = {"llm_provider": "qwen", "llm_model": "qwen-2.5", "llm_cost_usd": 0.5}
    found = metrics.metrics_of(registry)
    for kind, fields in [
        ("agent.execution.started", who),
        ("agent.execution.completed", {**ended, **money, "llm_cost_usd": 1.5}),
        ("agent.execution.failed", {**failed, "llm_cost_usd": 0.25}),
        ("agent.execution.cancelled", {**who, "llm_tokens_used": 7, "llm_cost_usd": 0.125}),
        ("agent.retry.attempted", {**who, "retry_reason": "timeout"}),
        ("agent.fallback.triggered", {**who, "primary_agent": "a", "fallback_agent": "b"}),
        ("agent.pipeline.completed", {**who, "pipeline_type": "p", "status": "success"}),
        ("agent.tool.called", {**who, "tool_name": "t", "status": "failed", "duration_ms": 70}),
        ("agent.decision.recorded", who),
        ("custom.thing", who),
    ]:
        found.observe({"event_type": kind, **fields}, 1.85 if "execution" in kind else None)
    for status in ("success", "failed"):
        call = {**who, **model, **money, "status": status, "duration_ms": 1500}
        first = {"time_to_first_token_ms": 300} if status == "success" else {}
        found.observe({"event_type": "agent.llm.called", **call, **first}, None)
    found.set_tokens("qwen", 10)


def test_the_exposition_has_the_series_of_the_contract(registry: CollectorRegistry) -> None:
    observe_one_of_each(registry)
    families = exposed(registry)
    for name, (kind, labels) in SERIES.items():
        assert families[name].type == kind
        shown = {frozenset(sample.labels) - {"le"} for sample in families[name].samples}
        assert shown == {frozenset(labels)}
    for name, bounds in BUCKETS.items():
        les = [s.labels["le"] for s in families[name].samples if s.name.endswith("_bucket")]
        assert les == [*bounds, "+Inf"]
    ours = {name.removesuffix("_created") for name in families} - SERIES.keys()
    assert ours
    assert all(name.startswith("tracereel_") for name in ours)


def test_every_type_of_event_counts_in_its_series(registry: CollectorRegistry) -> None:
    observe_one_of_each(registry)
    model = {"llm_provider": "qwen", "llm_model": "qwen-2.5"}
    for name, labels, expected in [
        ("agent_executions_total", {"agent_name": "a", "status": "success"}, 1),
        ("agent_executions_total", {"agent_name": "a", "status": "failed"}, 1),
        ("agent_executions_total", {"agent_name": "a", "status": "cancelled"}, 1),
        ("agent_execution_duration_seconds_count", {"agent_name": "a"}, 3),
        ("agent_retries_total", {"agent_name": "a", "retry_reason": "timeout"}, 1),
        ("agent_fallbacks_total", {"primary_agent": "a", "fallback_agent": "b"}, 1),
        ("llm_request_duration_seconds_sum", {"llm_provider": "qwen"}, 3.0),
        ("tracereel_agent_attempts_total", {"agent_name": "a"}, 5),
        ("tracereel_agent_tokens_total", {"agent_name": "a", "direction": "input"}, 287),
        ("tracereel_agent_tokens_total", {"agent_name": "a", "direction": "output"}, 136),
        ("tracereel_agent_tokens_total", {"agent_name": "a", "direction": "unknown"}, 7),
        ("tracereel_agent_cost_usd_total", {"agent_name": "a"}, 1.875),
        ("tracereel_agent_wasted_cost_usd_total", {"agent_name": "a", "cause": "failed"}, 0.25),
        (
            "tracereel_agent_wasted_cost_usd_total",
            {"agent_name": "a", "cause": "cancelled"},
            0.125,
        ),
        ("tracereel_llm_calls_total", {**model, "status": "failed"}, 1),
        ("tracereel_llm_tokens_total", {**model, "direction": "input"}, 574),
        ("tracereel_llm_cost_usd_total", model, 1.0),
        ("tracereel_llm_wasted_cost_usd_total", {**model, "status": "failed"}, 0.5),
        ("tracereel_llm_time_to_first_token_seconds_sum", model, 0.3),
        ("tracereel_tool_calls_total", {"tool_name": "t", "status": "failed"}, 1),
        ("tracereel_tool_duration_seconds_sum", {"tool_name": "t"}, 0.07),
        ("tracereel_pipelines_total", {"pipeline_type": "p", "status": "success"}, 1),
    ]:
        assert registry.get_sample_value(name, labels) == expected, name


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
    observe_one_of_each(registry)
    assert metrics.metrics_of(registry).executions.metric is own
    assert own.labels("a", "success")._value.get() == 1


def test_existing_series_of_another_type_is_not_used(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    Gauge("agent_executions_total", "something else", registry=registry)
    event = {"event_type": "agent.execution.completed", "agent_name": "a", "confidence": None}
    metrics.metrics_of(registry).observe(event, 0.1)
    assert "another shape" in caplog.text


def completed(agent: str, **fields: Any) -> dict[str, Any]:
    return {
        "event_type": "agent.execution.completed",
        "agent_name": agent,
        "confidence": None,
        "trace_id": "trc_1",
        **fields,
    }


def test_gathered_counts_are_exact_from_many_threads(registry: CollectorRegistry) -> None:
    """Scraped continuously: nothing is counted twice or lost."""
    found = metrics.metrics_of(registry)
    plain = random.Random(7)
    values = [plain.choice([0.05, 0.1, 0.3, 1.0, 45.0, 99.0]) for _ in range(500)]

    def work() -> None:
        for value in values:
            found.observe(completed("a"), value)
            found.count_events("recorded")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        seen.append(
            registry.get_sample_value("tracereel_sdk_events_total", {"outcome": "recorded"})
        )
    for thread in threads:
        thread.join()
    numbers = [number for number in seen if number is not None]
    assert numbers == sorted(numbers)
    value = registry.get_sample_value
    assert value("tracereel_sdk_events_total", {"outcome": "recorded"}) == 4000
    assert value("agent_executions_total", {"agent_name": "a", "status": "success"}) == 4000
    for le in (0.1, 0.5, 1.0, 60.0):
        expected = 8 * sum(v <= le for v in values)
        labels = {"agent_name": "a", "le": str(le)}
        assert value("agent_execution_duration_seconds_bucket", labels) == expected
    total = value("agent_execution_duration_seconds_sum", {"agent_name": "a"})
    assert total == pytest.approx(8 * sum(values))


def test_a_signal_in_the_middle_of_counting_is_counted_after(registry: CollectorRegistry) -> None:
    """Its handler runs while its own thread holds the locks of prometheus_client."""
    found = metrics.metrics_of(registry)
    child = found.executions("a", "success")._child

    def interrupted() -> None:
        with child._value._lock:
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: found.observe(completed("a"), 0.1))
    try:
        metric_buffer.in_turn(interrupted)
    finally:
        signal.signal(signal.SIGUSR1, before)
    labels = {"agent_name": "a", "status": "success"}
    assert registry.get_sample_value("agent_executions_total", labels) == 1


def test_labels_are_capped_with_other(registry: CollectorRegistry) -> None:
    found = metrics.metrics_of(registry)
    for number in range(metric_buffer.MAX_VALUES + 50):
        found.observe(completed(f"agent_{number}"), 0.1)
    value = registry.get_sample_value
    other = {"agent_name": "other", "status": "success"}
    assert value("agent_executions_total", other) == 50
    families = exposed(registry)
    assert len(families["agent_executions"].samples) == metric_buffer.MAX_VALUES + 1
    assert value("agent_execution_duration_seconds_count", {"agent_name": "other"}) == 50


def test_combinations_of_labels_are_capped_too(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_buffer, "MAX_CHILDREN", 20)
    found = metrics.metrics_of(registry)
    for one in range(10):
        for two in range(10):
            event = {"primary_agent": f"p{one}", "fallback_agent": f"f{two}"}
            found.observe({"event_type": "agent.fallback.triggered", **event}, None)
    samples = exposed(registry)["agent_fallbacks"].samples
    assert len(samples) == 21
    assert sum(sample.value for sample in samples) == 100


@pytest.mark.parametrize("name", [None, 7, "x" * 5000, "a\ud800", 'quote " and \n'])
def test_unusual_label_values_are_bounded(registry: CollectorRegistry, name: Any) -> None:
    metrics.metrics_of(registry).observe(completed(name), 0.1)
    (sample,) = exposed(registry)["agent_executions"].samples
    assert 0 < len(sample.labels["agent_name"]) <= metric_buffer.MAX_LABEL_LENGTH


def test_exemplars_name_the_trace_where_openmetrics_is_asked_for(
    registry: CollectorRegistry,
) -> None:
    found = metrics.metrics_of(registry)
    found.observe(completed("a", trace_id="trc_fast"), 0.01)
    found.observe(completed("a", trace_id="trc_slow"), 7.0)
    found.observe(completed("b", trace_id="t" * 128), 0.01)
    text = generate_openmetrics(registry).decode()
    families = {family.name: family for family in openmetrics_families(text)}
    traces = {
        (sample.name, sample.labels["agent_name"]): sample.exemplar.labels
        for name in ("agent_executions", "agent_execution_duration_seconds")
        for sample in families[name].samples
        if sample.exemplar is not None and sample.labels.get("le") in (None, "10.0")
    }
    assert traces == {
        ("agent_executions_total", "a"): {"trace_id": "trc_fast"},
        ("agent_execution_duration_seconds_bucket", "a"): {"trace_id": "trc_slow"},
    }
    assert "trc_" not in generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X-RateLimit-Remaining-Tokens": "149984"}, 149984),
        ({"anthropic-ratelimit-tokens-remaining": "80000"}, 80000),
        (
            [
                (b"anthropic-ratelimit-input-tokens-remaining", b"900"),
                (b"anthropic-ratelimit-output-tokens-remaining", b"70"),
            ],
            70,
        ),
        ({"x-ratelimit-remaining-tokens": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "5"}, None),
        (None, None),
    ],
)
def test_the_quota_is_read_from_a_providers_headers(
    recorded: Deliver, registry: CollectorRegistry, headers: object, expected: int | None
) -> None:
    """Uses the registry given to `configure` by default."""
    assert tokens_remaining_from_headers("openai", headers) == expected
    shown = registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "openai"})
    assert shown == expected


def test_in_multi_process_mode_nothing_is_held_back(child: Child, tmp_path: Any) -> None:
    """Another process collects the metrics from files."""
    (tmp_path / "prom").mkdir()
    process = child(
        """
        import os
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector
        from tracereel._telemetry.metrics import metrics_of

        found = metrics_of(None)
        for _ in range(3):
            found.count_events("recorded")
            found.count_redaction("email")
            found.observe(
                {
                    "event_type": "agent.execution.completed",
                    "agent_name": "a",
                    "confidence": None,
                    "trace_id": "t",
                },
                0.2,
            )
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        print(generate_latest(registry).decode())
        """,
        PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "prom"),
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert 'tracereel_sdk_events_total{outcome="recorded"} 3.0' in out
    assert 'agent_execution_duration_seconds_count{agent_name="a"} 3.0' in out
    assert 'tracereel_sdk_redactions_total{rule="email"} 3.0' in out


def test_events_are_counted_from_recorded_to_delivered(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)
    traced_agent("a")(lambda: None)()
    tracereel.flush(20.0)
    for outcome in ("recorded", "delivered"):
        assert registry.get_sample_value("tracereel_sdk_events_total", {"outcome": outcome}) == 2


def test_redactions_are_counted_by_rule(recorded: Deliver, registry: CollectorRegistry) -> None:
    @traced_agent("a")
    def work(prompt: str) -> str:
        return prompt

    work("mail ana@example.com")
    recorded()
    value = registry.get_sample_value("tracereel_sdk_redactions_total", {"rule": "email"})
    assert value == 4, "in the input and in the output, and in their summaries"


@pytest.mark.parametrize("traced", [True, False])
def test_model_duration_is_observed_once(
    recorded: Deliver, registry: CollectorRegistry, traced: bool
) -> None:
    call = traced_llm("m", provider="qwen")(lambda: "answer") if traced else lambda: "answer"

    @traced_agent("a", llm_provider="qwen")
    def work() -> None:
        call()
        current_execution().set(llm_duration_seconds=1.5)

    work()
    recorded()
    count = registry.get_sample_value(
        "llm_request_duration_seconds_count", {"llm_provider": "qwen"}
    )
    assert count == 1


def test_the_reasons_for_drops_in_code_and_documentation_are_those_of_the_table() -> None:
    """Every drop reason in the code is in the table, and the table is documented."""
    package = Path(tracereel.__file__).parent
    given = {spool.SPOOL_FULL, spool.SPOOL_ERROR, sampling.SAMPLED_OUT, calls.DUPLICATE}
    for path in package.rglob("*.py"):
        given |= set(re.findall(r"\bdrop\(\"([^\"]+)\"", path.read_text(encoding="utf-8")))
    assert given == set(semconv.DROP_REASONS)
    text = (package.parents[1] / "docs" / "sdk.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "tracereel_sdk_events_dropped_total" in line]
    listed = re.findall(r"`([a-z_]+)`", line.partition("reasons")[2])
    assert sorted(listed) == sorted(semconv.DROP_REASONS)
