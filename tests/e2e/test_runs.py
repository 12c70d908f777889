"""Runs read back from a running collector: the tree, what is in it, and what it amounts to."""

import json
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import http
from tests.support.contract import EXAMPLES, example
from tests.support.waiting import wait_until

SPAN = {name: uuid.uuid4().hex[:16] for name in ("pipeline", "agent", "llm", "http", "inner")}


def read(collector, path):
    answer = http("GET", collector.url + path)
    assert answer.status == 200, answer.body
    return answer.json()


def at(milliseconds):
    return f"2026-01-23T10:00:{milliseconds / 1000:09.6f}Z"


def own(event_type, milliseconds, **fields):
    """An event of a type, with an id of its own."""
    try:
        made = example(event_type)
    except StopIteration:
        made = {"event_type": event_type}
    return {**made, "event_id": uuid.uuid4().hex, "timestamp": at(milliseconds), **fields}


@pytest.fixture(scope="module")
def mixed(collector):
    """A run of ours with a span of somebody else's between the agent and the model, and a sub-run."""
    run = f"trc_{uuid.uuid4().hex}"
    otel = uuid.uuid4().hex
    both = {"trace_id": run, "otel_trace_id": otel, "request_id": "r"}
    agent = {"span_id": SPAN["agent"], "parent_span_id": SPAN["pipeline"], "agent_name": "parser"}
    events = [
        own("agent.pipeline.started", 0, span_id=SPAN["pipeline"], **both),
        own("agent.execution.started", 10, **agent, **both),
        own(
            *("agent.llm.called", 80),
            span_id=SPAN["llm"],
            parent_span_id=SPAN["http"],
            agent_name="parser",
            llm_model="qwen-2.5",
            llm_tokens_used=10,
            llm_cost_usd=0.5,
            status="success",
            duration_ms=50,
            **both,
        ),
        own("agent.decision.recorded", 85, span_id=SPAN["agent"], **both),
        own("agent.execution.completed", 90, **agent, **both),
        own("agent.pipeline.completed", 100, span_id=SPAN["pipeline"], **both),
        own(
            *("agent.execution.started", 95),
            trace_id=f"{run}-sub",
            parent_trace_id=run,
            agent_name="inner",
            span_id=SPAN["inner"],
        ),
    ]
    assert collector.post_events(events).json()["accepted"] == len(events)
    request = ExportTraceServiceRequest()
    made = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            name="POST /chat",
            trace_id=bytes.fromhex(otel),
            span_id=bytes.fromhex(SPAN["http"]),
            parent_span_id=bytes.fromhex(SPAN["agent"]),
            kind=3,
        )
    )
    began = 1_769_162_400_000_000_000
    made.start_time_unix_nano, made.end_time_unix_nano = began + 20_000_000, began + 85_000_000
    answer = http(
        *("POST", f"{collector.url}/v1/traces", request.SerializeToString()),
        {"Content-Type": "application/x-protobuf"},
    )
    assert answer.status == 200
    wait_until(lambda: http("GET", f"{collector.url}/v1/traces/{otel}").status == 200, timeout=20)
    return run, otel


def outline(document):
    return [(step["depth"], step["kind"], step["name"]) for step in document["steps"]]


def test_events_spans_and_linked_runs_are_one_tree(collector, mixed):
    run, otel = mixed
    document = read(collector, f"/v1/traces/{run}")

    assert outline(document) == [
        (0, "pipeline", "appointment_creation"),
        (1, "agent", "parser"),
        (2, "span", "POST /chat"),
        (3, "llm", "qwen-2.5"),
        (1, "agent", "inner"),
    ]
    assert otel in document["otel_trace_ids"]
    assert document["summary"]["runs"] == [run, f"{run}-sub"]
    pipeline, agent, _, llm, inner = document["steps"]
    assert pipeline["cost_usd"] == llm["cost_usd"] == 0.5
    assert agent["decisions"][0]["type"] == "temporal_resolution"
    assert inner["status"] == "unknown", "nobody reports on it, and it is old"


def test_a_linked_run_alone_names_its_parent(collector, mixed):
    run, _ = mixed
    alone = read(collector, f"/v1/traces/{run}-sub")
    unlinked = read(collector, f"/v1/traces/{run}?linked=false")

    assert outline(alone) == [(0, "agent", "inner")]
    assert alone["parent_trace_id"] == run
    assert len(unlinked["steps"]) == 4


def test_the_id_of_the_opentelemetry_trace_leads_to_the_run(collector, mixed):
    run, otel = mixed
    own_spans = [
        own(
            *("agent.execution.completed", 5),
            trace_id=f"{run}-x",
            otel_trace_id=uuid.uuid4().hex,
            span_id=uuid.uuid4().hex[:16],
            span_name="invoke_agent x",
            span_start_unix_nano=1_769_162_400_000_000_000,
            span_end_unix_nano=1_769_162_400_005_000_000,
        )
    ]
    collector.post_events(own_spans)

    document = read(collector, f"/v1/traces/{own_spans[0]['otel_trace_id']}")

    assert [step["trace_id"] for step in document["steps"]] == [f"{run}-x"]
    only_spans = read(collector, f"/v1/traces/{otel}")
    assert outline(only_spans) == [(0, "span", "POST /chat")]


def test_the_examples_of_the_contract_are_a_run(collector, trace_id):
    assert (
        collector.post_events([{**each, "trace_id": trace_id} for each in EXAMPLES]).status == 200
    )

    document = read(collector, f"/v1/traces/{trace_id}")

    assert outline(document)[0] == (0, "pipeline", "appointment_creation")
    assert document["summary"]["total_events"] == 8
    assert document["summary"]["first_error"]["type"] == "LLMTimeoutError"
    (chain,) = document["chains"]
    assert [link["what"] for link in chain["links"]] == ["attempt", "attempt", "fallback"]
    assert json.dumps(document)


def test_a_run_nobody_has_is_404(collector):
    answer = http("GET", f"{collector.url}/v1/traces/trc-none")

    assert answer.status == 404
    assert answer.json()["error"]["code"] == "not_found"
