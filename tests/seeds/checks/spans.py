"""Checks of OpenTelemetry spans, their attributes and events."""

import asyncio
import json
import os
import re
import subprocess
import sys

from tests.seeds.registry import check, collector_check
from tests.seeds.types import is_of_type
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel import traced_agent
from tracereel.testing import EventRecorder

SUB_SPANS = ("parsing_agent.process", "parsing_agent.llm_call", "parsing_agent.validation")


def named(evidence, name):
    (found,) = [span for span in evidence.declared.spans if span.name == name]
    return found


@check
def async_method(row, evidence):
    (started,) = [
        event
        for event in evidence.declared.of("agent.execution.started")
        if event["agent_name"] == "parsing_agent"
    ]
    assert started["trace_id"] == "trc_declared"
    assert started["request_id"] == "req_declared"
    assert started["session_id"] == "ses_declared"
    assert "ParsingAgent" not in started["input_summary"]


class _OnInstance:
    def __init__(self):
        self.trace_id = "trc_instance"


class _OnClass:
    trace_id = "trc_class"


class _Property:
    @property
    def trace_id(self):
        return "trc_property"


@check
def trace_id_of_context(row, evidence):
    @traced_agent("parsing_agent")
    async def process(context):
        return None

    with EventRecorder() as recorder:
        for kind in (_OnInstance, _OnClass, _Property):
            asyncio.run(process(kind()))
    found = [event["trace_id"] for event in recorder.get_events("agent.execution.started")]
    assert found == ["trc_instance", "trc_class", "trc_property"]


@check
def agent_span_name(row, evidence):
    agent = named(evidence, "invoke_agent parsing_agent")
    own = named(evidence, "parsing_agent.process")
    assert own.parent.span_id == agent.context.span_id


@check
def agent_span_attribute(row, evidence):
    agent = named(evidence, "invoke_agent parsing_agent")
    assert agent.attributes[row["attribute"]] == row["value"]


@check
def own_spans_nest(row, evidence):
    agent, process, call, validation = (
        named(evidence, name) for name in ("invoke_agent parsing_agent", *SUB_SPANS)
    )
    assert process.parent.span_id == agent.context.span_id
    assert {call.parent.span_id, validation.parent.span_id} == {process.context.span_id}
    assert {span.context.trace_id for span in (agent, process, call)} == {agent.context.trace_id}


@check
def llm_span_attribute(row, evidence):
    assert named(evidence, "chat qwen-2.5").attributes[row["attribute"]] == row["value"]


@check
def validation_confidence(row, evidence):
    own = named(evidence, "parsing_agent.validation")
    assert own.attributes["validation.confidence"] == 0.92
    assert named(evidence, "invoke_agent parsing_agent").attributes["agent.confidence"] == 0.92


@check
def span_event(row, evidence):
    values = [
        event.attributes[row["attribute"]]
        for span in evidence.declared.spans
        for event in span.events
        if event.name == row["event"]
    ]
    assert values
    assert all(is_of_type(value, row["type"]) for value in values)


def sample(evidence):
    """Return the replay of the printed sample."""
    evidence.run_with_collector("sample.py", "trc_sample")
    return evidence.replay("trc_sample")


def spans_shown(document):
    """Return names of spans in a timeline."""
    shown = {entry["details"].get("span_name") for entry in document["timeline"]}
    return {name for name in shown if name}


@collector_check
def own_spans_without_provider(row, evidence):
    assert set(SUB_SPANS) <= spans_shown(sample(evidence))
    steps = {step.name for step in evidence.client.trace("trc_sample").steps}
    assert set(SUB_SPANS) <= steps


@check
def lost_spans_are_named(row, evidence):
    for own in ((), ("own",)):
        line, *rest = evidence.run("lost_spans.py", *own).stderr.splitlines()
        assert "call tracereel.configure() at its start, or set a provider" in line
        assert rest == ["call", "call"]


@collector_check
def program_span_events(row, evidence):
    text = json.dumps(sample(evidence)["timeline"])
    assert "retry_attempted" in text
    assert "decision_recorded" in text


@collector_check
def demo_sub_spans(row, evidence):
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "demo", "--runs", "1", "--seed", "1"],
        env={
            **os.environ,
            **evidence.destination,
            "TRACEREEL_SPOOL_DIR": str(evidence.folder / "demo"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (trace_id,) = set(re.findall(r"replay (\S+)", done.stdout))
    done_runs = {"service": "tracereel-demo", "status": "success"}
    wait_until(lambda: trace_id in [each.trace_id for each in evidence.client.find(**done_runs)])
    steps = evidence.client.trace(trace_id).steps
    assert any(step.kind == "llm" for step in steps)
    validations = [step for step in steps if "validat" in step.name and step.kind != "agent"]
    assert any(step.confidence is not None for step in validations)


@collector_check
def reaches_jaeger(row, evidence):
    started = evidence.stored_declared["timeline"][0]["details"]
    url = f"{evidence.collector.url}/api/traces/{started['otel_trace_id']}"
    answer = http("GET", url, headers=evidence.headers)
    assert answer.status == 200, answer.body
    (trace,) = answer.json()["data"]
    names = {span["operationName"] for span in trace["spans"]}
    assert {"invoke_workflow appointment_creation", "invoke_agent parsing_agent"} <= names
