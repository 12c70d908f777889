"""Checks of the replay of a run."""

import asyncio

import pytest

from tests.seeds.evidence import KEYS
from tests.seeds.registry import collector_check
from tests.seeds.types import is_of_type
from tests.support.collector import http
from tracereel.client import AgentExecutionReplay, TraceNotFoundError

TRACE = "trc_declared"


@collector_check
def replay_class(row, evidence):
    stored = evidence.stored_declared
    replay = AgentExecutionReplay(evidence.collector.url, KEYS["own"])
    document = asyncio.run(replay.replay(TRACE))
    assert document["timeline"] == stored["timeline"]


@collector_check
def replay_trace_id(row, evidence):
    assert evidence.stored_declared["trace_id"] == TRACE


@collector_check
def replay_timeline(row, evidence):
    timeline = evidence.stored_declared["timeline"]
    assert timeline
    for entry in timeline:
        assert is_of_type(entry["time"], "datetime")
        assert entry["event"] == entry["details"]["event_type"]
        assert entry["details"]["timestamp"] == entry["time"]


@collector_check
def replay_order(row, evidence):
    times = [entry["time"] for entry in evidence.stored_declared["timeline"]]
    assert times == sorted(times)


@collector_check
def replay_order_with_spans(row, evidence):
    for number in range(3):
        trace_id = f"trc_nested_{number}"
        evidence.run_with_collector("nested.py", trace_id)
        document = evidence.replay(trace_id)
        timeline = document["timeline"]
        assert sum(entry["event"] == "otel.span" for entry in timeline) == 7
        times = [entry["time"] for entry in timeline]
        assert times == sorted(times), [entry["event"] for entry in timeline]
        assert document["summary"]["total_events"] == len(timeline)


@collector_check
def replay_summary(row, evidence):
    timeline = evidence.stored_declared["timeline"]
    kinds = [entry["event"] for entry in timeline]
    opened, closed = timeline[0]["details"], timeline[-1]["details"]
    assert closed["event_type"] == "agent.pipeline.completed"
    agents = {entry["details"].get("agent_name") for entry in timeline} - {None}
    expected = {
        "total_events": len(timeline),
        "agents_executed": len(agents),
        "total_time_ms": closed["total_execution_time_ms"],
        "errors": kinds.count("agent.execution.failed"),
        "retries": kinds.count("agent.retry.attempted"),
    }
    assert opened["event_type"] == "agent.pipeline.started"
    found = evidence.stored_declared["summary"][row["key"]]
    assert found == pytest.approx(expected[row["key"]], abs=1 if row["key"].endswith("ms") else 0)


@collector_check
def replay_parts(row, evidence):
    stored = evidence.stored_declared
    replay = AgentExecutionReplay(evidence.collector.url, KEYS["own"])
    events = asyncio.run(replay.get_events_by_trace(TRACE))
    assert events == [entry["details"] for entry in stored["timeline"]]
    assert events == sorted(events, key=lambda event: event["timestamp"])
    assert evidence.client.replay(TRACE).summary == stored["summary"]
    assert replay.replay_sync(TRACE)["summary"] == stored["summary"]


@collector_check
def replay_http(row, evidence):
    stored = evidence.stored_declared
    url = f"{evidence.collector.url}/v1/replay"
    answer = http("GET", f"{url}/{TRACE}", headers=evidence.headers)
    assert answer.status == 200
    assert answer.json()["timeline"] == stored["timeline"]
    assert http("GET", f"{url}/trc_unknown", headers=evidence.headers).status == 404
    with pytest.raises(TraceNotFoundError):
        evidence.client.replay("trc_unknown")
