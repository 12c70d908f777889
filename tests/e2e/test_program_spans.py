"""Spans of other instrumentations in an agent program are stored beside its events."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

PROGRAM = """
import tracereel
from opentelemetry import trace

tracereel.configure()
tracer = trace.get_tracer("library")

@tracereel.traced_agent("a")
def agent():
    with tracer.start_as_current_span("SELECT"):
        pass

for _ in range(20):
    agent()
"""

SEED = """
import asyncio, sys
import tracereel
from opentelemetry import trace

tracereel.configure(set_tracer_provider=True)
tracer = trace.get_tracer(__name__)


class SharedContext:
    def __init__(self, trace_id):
        self.trace_id = trace_id


class ParsingAgent:
    @tracereel.traced_agent("parsing_agent")
    async def process(self, context):
        with tracer.start_as_current_span("parsing_agent.process") as span:
            span.set_attribute("agent.name", "parsing_agent")
            span.set_attribute("trace_id", context.trace_id)
            with tracer.start_as_current_span("parsing_agent.llm_call") as llm_span:
                llm_span.set_attribute("llm.provider", "qwen")
                llm_span.set_attribute("llm.model", "qwen-2.5")
                await asyncio.sleep(0)
                llm_span.set_attribute("llm.tokens_used", 423)
            span.add_event(
                "retry_attempted",
                attributes={"attempt": 2, "error": "timeout", "delay_seconds": 4.0},
            )
            with tracer.start_as_current_span("parsing_agent.validation") as val_span:
                val_span.set_attribute("validation.confidence", 0.92)
                tracereel.record_decision("entity_extraction", confidence=0.92)
            span.add_event(
                "decision_recorded",
                attributes={"decision_type": "entity_extraction", "confidence": 0.92},
            )
        return {"contacto": "Dr. P\u00e9rez"}


for number in range(6):
    asyncio.run(ParsingAgent().process(SharedContext(f"{sys.argv[1]}_{number}")))
"""
"""The contract's own example of sub-spans inside of a decorated agent, run six times."""
SUB_SPANS = ["parsing_agent.process", "parsing_agent.llm_call", "parsing_agent.validation"]


def run_program(collector, tmp_path, program, *arguments, says=False):
    """Run a program; only one that `says` something may write to standard error."""
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_SPOOL_DIR": str(tmp_path),
        "TRACEREEL_EVENT_LOGS": "off",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, bool(done.stderr)) == (0, says), done.stderr


@pytest.fixture(scope="module")
def seed_runs(collector, tmp_path_factory):
    """Run the contract's example; return the replays of its six runs."""
    name = f"trc_{uuid.uuid4().hex}"
    run_program(collector, tmp_path_factory.mktemp("spool"), SEED, name)

    def whole(number):
        answer = collector.replay(f"{name}_{number}")
        if answer.status == 200:
            document = answer.json()
            spans = document["summary"]["total_spans"]
            ended = any(each["event"].endswith(".completed") for each in document["timeline"])
            return document if spans == len(SUB_SPANS) and ended else None
        return None

    return [wait_until(lambda number=number: whole(number), timeout=30) for number in range(6)]


def test_sub_spans_of_the_contract_are_replayed_in_order(seed_runs):
    for document in seed_runs:
        timeline = document["timeline"]
        times = [entry["time"] for entry in timeline]
        offsets = [entry["step"]["offset_ms"] for entry in timeline]
        names = [each["details"]["span_name"] for each in timeline if each["event"] == "otel.span"]

        assert times == sorted(times)
        assert offsets == sorted(offsets)
        assert names == SUB_SPANS
        assert timeline[0]["event"] == "agent.execution.started"
        assert timeline[-1]["event"] == "agent.execution.completed"
        assert document["summary"]["total_events"] == len(timeline)


def test_span_events_of_the_program_are_in_replay_tree_and_counts(collector, seed_runs):
    document = seed_runs[0]
    marks = [each["details"] for each in document["timeline"] if each["event"] == "otel.span_event"]
    expected = [
        ("retry_attempted", {"attempt": 2, "error": "timeout", "delay_seconds": 4.0}),
        ("decision_recorded", {"decision_type": "entity_extraction", "confidence": 0.92}),
    ]
    assert [(mark["name"], mark["attributes"]) for mark in marks] == expected
    summary = document["summary"]
    # One decision was recorded with the SDK, one only as an event of the span.
    assert (summary["span_events"], summary["retries"], summary["decisions"]) == (2, 1, 2)

    tree = http("GET", f"{collector.url}/v1/traces/{document['trace_id']}").json()
    step = next(each for each in tree["steps"] if each["name"] == "parsing_agent.process")
    assert [(each["name"], each["attributes"]) for each in step["span_events"]] == expected
    assert step["event_count"] == 2
    alone = f"{collector.url}/v1/traces/{document['trace_id']}?step={step['id']}&alone=1"
    assert http("GET", alone).json()["step"]["span_events"] == step["span_events"]

    found = http("GET", f"{collector.url}/v1/traces?min_retries=1&agent=parsing_agent").json()
    run = next(each for each in found["traces"] if each["trace_id"] == document["trace_id"])
    assert (run["retries"], run["decisions"]) == (1, 2)


def test_program_spans_are_stored_and_own_spans_are_not_sent_twice(collector, tmp_path):
    def stored():
        return collector.metric("tracereel_records_stored_total", kind="spans")

    before = stored()
    run_program(collector, tmp_path, PROGRAM)

    wait_until(lambda: stored() >= before + 20)
    assert stored() == before + 20


OWN_SPAN = """
import sys
import tracereel
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

how, name = sys.argv[1:]
if how == "configured":
    tracereel.configure()
elif how == "a provider without processors":
    trace.set_tracer_provider(TracerProvider())


@tracereel.traced_tool("search")
def search():
    trace.get_current_span().add_event("searched", {"hits": 3})
    trace.get_current_span().record_exception(ValueError("no hits"), {"query": "x"})


@tracereel.traced_agent("parsing_agent", trace_id=name)
def agent():
    trace.get_current_span().add_event("retry_attempted", {"attempt": 2, "error": "timeout"})
    tracereel.record_decision("entity_extraction", confidence=0.92)
    search()


agent()
tracereel.flush(20)
"""


@pytest.mark.parametrize("how", ["configured", "a provider without processors", "no provider"])
def test_events_that_a_program_adds_to_the_sdks_own_span_are_shown(collector, tmp_path, how):
    name = f"trc_{uuid.uuid4().hex}"
    run_program(collector, tmp_path, OWN_SPAN, how, name, says=how == "no provider")

    def whole():
        answer = collector.replay(name)
        found = answer.json() if answer.status == 200 else None
        # The events of spans may arrive before the last event.
        is_closed = found and found["timeline"][-1]["event"] == "agent.execution.completed"
        return found if is_closed and found["summary"]["span_events"] == 3 else None

    document = wait_until(whole, timeout=30)
    summary, timeline = document["summary"], document["timeline"]
    assert (summary["retries"], summary["decisions"]) == (1, 1)
    assert summary["total_events"] == len(timeline) == 7
    assert [each["event"].removeprefix("agent.") for each in timeline] == [
        "execution.started",
        "otel.span_event",
        "decision.recorded",
        "otel.span_event",
        "otel.span_event",
        "tool.called",
        "execution.completed",
    ]
    tree = http("GET", f"{collector.url}/v1/traces/{name}").json()
    marks = {
        step["name"]: [(each["name"], each["attributes"]) for each in step["span_events"]]
        for step in tree["steps"]
        if step.get("span_events")
    }
    raised = marks["search"][1][1]
    assert raised.pop("exception.stacktrace").endswith("ValueError: no hits\n")
    assert marks == {
        "parsing_agent": [("retry_attempted", {"attempt": 2, "error": "timeout"})],
        "search": [
            ("searched", {"hits": 3}),
            (
                "exception",
                {
                    "exception.type": "ValueError",
                    "exception.message": "no hits",
                    "exception.escaped": "False",
                    "query": "x",
                },
            ),
        ],
    }
    for step in tree["steps"]:
        alone = http("GET", f"{collector.url}/v1/traces/{name}?step={step['id']}&alone=1").json()
        shown = [each["name"] for each in alone["step"]["span_events"]]
        assert shown == [each for each, _ in marks[step["name"]]]
        assert alone["step"]["event_count"] == step["event_count"]
