"""List, tree, replay and sessions say the same of a run, whatever recorded it."""

import os
import subprocess
import sys
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.dialects import golden
from tests.support.collector import http
from tests.support.run_corpus import KINDS
from tests.support.waiting import wait_until

OTLP = {"Content-Type": "application/x-protobuf"}
EXPECTED = {
    "success": ("booking", "success", 0),
    "agent_alone": ("lonely", "success", 0),
    "two_agents": ("first", "failed", 1),
    "failure": ("booking", "failed", 1),
    "pipeline_raises": ("booking", "failed", 1),
    "tool_raises": ("booking", "failed", 1),
    "tool_handled": ("careful", "success", 0),
    "retried": ("booking", "success", 0),
    "exhausted": ("booking", "failed", 2),
    "replaced": ("booking", "partial_success", 1),
    "cancelled": ("booking", "cancelled", 0),
    "nested": ("booking", "partial_success", 0),
    "child": ("helper", "failed", 1),
    "bare_model_call": ("chat gpt-5", "success", 0),
    "bare_tool": ("calendar", "success", 0),
    "bare_tool_fails": ("calendar", "failed", 1),
    "bare_step": ("normalize", "success", 0),
    "bare_retrieval": ("handbook", "success", 0),
}
"""Name, status and errors of each run of the corpus."""


def read(collector, path):
    answer = http("GET", collector.url + path)
    assert answer.status == 200, (path, answer.body)
    return answer.json()


def from_list(row):
    shown = (row["name"], row["status"], row["errors"], row["duration_ms"])
    return (*shown, row["session_id"], row["user_id"])


def from_tree(collector, run):
    document = read(collector, f"/v1/traces/{run}")
    summary = document["summary"]
    assert summary["state"] == document["state"]
    assert summary["name"] == document["name"]
    assert summary["total_time_ms"] == round(summary["duration_ms"])
    shown = (document["name"], document["state"], summary["errors"], summary["duration_ms"])
    return (*shown, document["session_id"], document["user_id"])


def from_replay(collector, run):
    summary = read(collector, f"/v1/replay/{run}")["summary"]
    return summary["name"], summary["state"], summary["errors"], summary["duration_ms"]


def assert_agreed(collector, row):
    run, shown = row["trace_id"], from_list(row)
    assert from_tree(collector, run) == shown
    assert from_replay(collector, run) == shown[:4]
    assert from_replay(collector, f"{run}?linked=false") == shown[:4]
    alone = read(collector, f"/v1/replay/{run}?linked=false")
    tree = read(collector, f"/v1/traces/{run}?linked=false")
    entries = {len(alone["timeline"]), alone["summary"]["total_events"]}
    assert entries == {tree["summary"]["total_events"], row["events"]} == {row["events"]}
    brief = read(collector, f"/v1/traces/{run}?budget_bytes=4000")
    assert (brief["name"], brief["state"]) == shown[:2]
    assert brief["summary"]["duration_ms"] == row["duration_ms"]


@pytest.fixture(scope="module")
def recorded(collector):
    """Record the corpus with the SDK, tapes included; return the rows of the list by kind."""
    name = uuid.uuid4().hex
    environ = {**os.environ, "TRACEREEL_ENDPOINT": collector.url, "TRACEREEL_RECORD": "all"}
    program = [sys.executable, "-m", "tests.support.run_corpus", name]
    subprocess.run(program, env=environ, check=True, timeout=120, capture_output=True)

    def rows():
        found = read(collector, "/v1/traces?user=ana&limit=200")["traces"]
        mine = [row for row in found if row["trace_id"].endswith(name)]
        return {row["trace_id"].removesuffix(f"-{name}"): row for row in mine}

    def ended():
        found = rows()
        return set(found) == set(EXPECTED) and "running" not in {
            r["status"] for r in found.values()
        }

    wait_until(ended, timeout=60)
    return name, rows()


def test_the_corpus_is_complete():
    assert {each.__name__ for each in KINDS} | {"child"} == set(EXPECTED)


@pytest.mark.parametrize("kind", sorted(EXPECTED))
def test_all_views_of_a_recorded_run_agree(collector, recorded, kind):
    row = recorded[1][kind]

    assert (row["name"], row["status"], row["errors"]) == EXPECTED[kind]
    assert row["duration_ms"] > 0
    assert_agreed(collector, row)


def test_a_session_and_the_list_agree_on_runs(collector, recorded):
    name, rows = recorded
    session = f"conversation-{name}"
    document = read(collector, f"/v1/sessions/{session}")
    (listed,) = [
        each
        for each in read(collector, "/v1/sessions?user=ana&limit=500")["sessions"]
        if each["session_id"] == session
    ]

    by_id = {turn["trace_id"]: from_list(turn) for turn in document["turns"]}
    assert by_id == {row["trace_id"]: from_list(row) for row in rows.values()}
    assert listed["errors"] == sum(row["errors"] for row in rows.values())
    assert listed["failed_turns"] == sum(row["status"] == "failed" for row in rows.values())
    assert listed["turns"] == len(rows)


@pytest.fixture(scope="module")
def foreign(collector):
    """Send recorded spans of every dialect, each in traces of its own; return the rows by dialect."""
    traces = {}
    service = f"agreement-{uuid.uuid4().hex}"  # other tests' runs fill the list of this collector
    for dialect, body in golden.bodies().items():
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            kept = [each for each in resource.resource.attributes if each.key != "service.name"]
            del resource.resource.attributes[:]
            resource.resource.attributes.extend(kept)
            resource.resource.attributes.add(key="service.name").value.string_value = service
        spans = [
            span
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        fresh = {}
        for span in spans:
            span.trace_id = fresh.setdefault(span.trace_id, uuid.uuid4().bytes)
        spans[-1].status.code, spans[-1].status.message = 2, "it broke"
        traces[dialect] = (len(spans), {each.hex() for each in fresh.values()})
        http("POST", f"{collector.url}/v1/traces", request.SerializeToString(), OTLP)

    def rows():
        asked = f"/v1/traces?limit=500&from=2000-01-01&service={service}"
        found = read(collector, asked)["traces"]
        return {row["trace_id"]: row for row in found}

    def of(dialect):
        return [row for run, row in rows().items() if run in traces[dialect][1]]

    wait_until(
        lambda: all(sum(r["spans"] for r in of(each)) == traces[each][0] for each in traces),
        timeout=60,
    )
    return {dialect: of(dialect) for dialect in traces}


@pytest.mark.parametrize("dialect", sorted(golden.bodies()))
def test_all_views_of_a_trace_of_another_instrumentation_agree(collector, foreign, dialect):
    rows = foreign[dialect]

    assert sum(row["errors"] for row in rows) >= 1
    for row in rows:
        assert row["name"]
        assert row["status"] in ("success", "failed")
        assert_agreed(collector, row)
