"""Checks of Prometheus metrics, their endpoint and the contract's goals."""

import json
import re
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.seeds.registry import check, collector_check
from tracereel import traced_agent
from tracereel.testing import EventRecorder

ROOT = Path(__file__).parents[3]
GOALS = {
    "event_emit_rate": "1000",
    "event_loss_rate": "0.0001",
    "trace_completion_rate": "0.95",
    "event_latency_p95": "0.1",
}
"""Series of the contract → value in its alert."""


def families(registry):
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def family(evidence, name):
    return families(evidence.declared.registry)[name.removesuffix("_total")]


@check
def metric(row, evidence):
    found = family(evidence, row["name"])
    assert found.type == row["kind"]
    assert found.samples
    assert {frozenset(each.labels) - {"le"} for each in found.samples} == {frozenset(row["labels"])}


@check
def confidence_gauge(row, evidence):
    """The gauge has the confidence of the event, set by hand or read from the result."""
    metric(row, evidence)
    registry = CollectorRegistry()
    with EventRecorder(registry=registry):
        traced_agent("parsing_agent")(lambda: {"confidence": 0.75})()
    assert registry.get_sample_value("agent_confidence", {"agent_name": "parsing_agent"}) == 0.75


@check
def buckets(row, evidence):
    samples = family(evidence, row["name"]).samples
    bounds = {float(each.labels["le"]) for each in samples if "le" in each.labels}
    assert sorted(bounds) == [*row["bounds"], float("inf")]


def _served(evidence):
    return json.loads(evidence.run("metrics.py").stdout)


@check
def start_http_server(row, evidence):
    text = _served(evidence)["start_http_server"]
    assert 'agent_executions_total{agent_name="parsing_agent",status="success"} 1.0' in text


@check
def start_metrics_server(row, evidence):
    served = _served(evidence)
    assert served["port"] == 9090 or served["port"] >= 9464
    assert "agent_executions_total" in served["start_metrics_server"]


@check
def own_metric_definitions(row, evidence):
    evidence.run("own_metrics.py")


@check
def reaches_prometheus(row, evidence):
    completed = len(evidence.declared.of("agent.execution.completed"))
    samples = family(evidence, "agent_executions_total").samples
    counted = [s.value for s in samples if s.name.endswith("_total")]
    failed = len(evidence.declared.of("agent.execution.failed"))
    assert sum(counted) == completed + failed


def _rules(name):
    text = (ROOT / "dashboards" / "prometheus" / "rules" / name).read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def _series(name):
    (rule,) = [rule for rule in _rules("recording.yml") if rule["record"] == name]
    return rule["expr"]


@check
def emit_rate(row, evidence):
    """Every event counts in the series; its speed is measured by the benchmarks."""
    assert "tracereel_sdk_events_total" in _series("event_emit_rate")
    recorded = evidence.declared.registry.get_sample_value(
        "tracereel_sdk_events_total", {"outcome": "recorded"}
    )
    assert recorded == len(evidence.declared.events)


def _delivered(evidence):
    return json.loads(evidence.run_with_collector("deliveries.py").stdout)


@collector_check
def loss_rate(row, evidence):
    delivered = _delivered(evidence)
    assert delivered["many"] == {"recorded": 2000, "delivered": 2000, "dropped": 0}
    evidence.settle()
    query = "SELECT count() FROM agent_events WHERE trace_id = 'trc_many'"
    ((stored,),) = evidence.client.sql(query).rows
    assert int(stored) == 2000


@collector_check
def completion_rate(row, evidence):
    """The series is the share of runs that succeeded: eleven of twelve."""
    text = _delivered(evidence)["exposition"]
    samples = [each for found in text_string_to_metric_families(text) for each in found.samples]

    def value(name, selector):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', selector))
        return sum(
            s.value for s in samples if s.name == name and labels.items() <= s.labels.items()
        )

    selected = re.findall(r"(tracereel_\w+)\{([^}]*)\}", _series("trace_completion_rate"))
    part, whole = (value(*each) for each in selected)
    assert part / whole == 11 / 12


@collector_check
def emit_latency(row, evidence):
    """Lone events do not wait for others: at least half are acknowledged within 100 ms."""
    within, total = _delivered(evidence)["lone"]
    assert total >= 20
    assert within >= total / 2, f"{within} of {total} events within 100 ms"


@check
def goals_published(row, evidence):
    alerts = [rule["expr"] for rule in _rules("alerts.yml")]
    board = (ROOT / "dashboards" / "json" / "tracereel-goals.json").read_text(encoding="utf-8")
    for name, goal in GOALS.items():
        assert _series(name)
        assert any(name in expression and goal in expression for expression in alerts)
        assert name in board
