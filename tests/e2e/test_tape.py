"""A run recorded by the SDK, kept by a collector, fetched from there and re-executed."""

import json
import random

import pytest

import tracereel
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel import _recorder, traced_agent, traced_tool


@traced_tool("dice", effect="read")
def dice(sides):
    return random.randint(1, sides)


@traced_agent("player")
def player(rolls):
    return [dice(1000 + n) for n in range(rolls)]


@pytest.fixture
def recorded(collector, tmp_path, monkeypatch, trace_id):
    monkeypatch.setenv("TRACEREEL_ENDPOINT", collector.url)
    before = _recorder._active
    tracereel.configure(endpoint=collector.url, spool_dir=tmp_path, record="all")
    agent = traced_agent("outer", trace_id=trace_id)(lambda: player(5))
    result = agent()
    assert tracereel.flush(30).spooled == 0
    yield trace_id, agent, result
    tracereel.shutdown(5)
    _recorder._active = before


def test_a_run_is_re_executed_from_the_collector(collector, recorded):
    trace_id, agent, result = recorded
    path = f"{collector.url}/v1/traces/{trace_id}/tape"
    wait_until(lambda: b'"closed"' in http("GET", path).body, timeout=30, message="no whole tape")
    with tracereel.replay(trace_id) as run:
        again = agent()

    assert again == result
    assert run.report.served == 5

    timeline = collector.replay(trace_id).json()["timeline"]
    assert "agent.tape.recorded" not in {entry["event"] for entry in timeline}
    complete = http("GET", f"{collector.url}/v1/traces/{trace_id}/completeness").json()
    assert complete["verdict"] == "complete", json.dumps(complete)


def test_a_run_without_a_tape_is_a_404(collector):
    answer = http("GET", f"{collector.url}/v1/traces/nobody/tape")

    assert answer.status == 404
    assert "no tape" in answer.json()["error"]["message"]
