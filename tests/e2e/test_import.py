"""`tracereel import`: history of other tools and collectors, once however often it is imported."""

import base64
import json
import os
import subprocess
import sys

import pytest
from google.protobuf.json_format import MessageToDict

from tests.clients import fields
from tests.support.collector import CollectorProcess, http
from tests.support.contract import example
from tests.support.waiting import wait_until

TRACE, UUID = "0af7651916cd43dd8448eb211c80319c", "5b7b6a3e-1111-4222-8333-944455556666"


@pytest.fixture
def site(new_collector):
    return new_collector().start()


@pytest.fixture
def second(tmp_path):
    collector = CollectorProcess(tmp_path / "second").start()
    yield collector
    collector.stop()


def imported(site, kind, *files):
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "import", kind, *map(str, files)],
        env={**os.environ, "TRACEREEL_ENDPOINT": site.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def written(folder, name, *records, indent=None):
    file = folder / name
    file.write_text("\n".join(json.dumps(each, indent=indent) for each in records) + "\n")
    return file


def rows(site, statement):
    return http("POST", f"{site.url}/v1/sql", statement.encode()).json()["rows"]


def runs(site):
    found = http("GET", f"{site.url}/v1/traces").json()["traces"]
    return {run["trace_id"]: run for run in found}


def observation(number, **more):
    return {
        "id": f"obs-{number}",
        "traceId": UUID,
        "type": "GENERATION",
        "name": f"call {number}",
        "startTime": f"2026-11-01T10:00:0{number}.000Z",
        "endTime": f"2026-11-01T10:00:0{number}.500Z",
        "model": "gpt-4o",
        "input": [{"role": "user", "content": "hello"}],
        "output": {"role": "assistant", "content": "hi"},
        "usageDetails": {"input": 10, "output": 5, "total": 15},
        **more,
    }


def test_langfuse_history_of_several_files_is_imported_once(site, tmp_path):
    trace = {"id": UUID, "name": "chat", "timestamp": "2026-11-01T10:00:00Z"}
    trace |= {"sessionId": "s-1", "userId": "u-1"}
    failing = {"level": "ERROR", "statusMessage": "slow down", "parentObservationId": "obs-1"}
    observations = written(
        tmp_path,
        "observations.jsonl",
        observation(1, costDetails={"total": 0.5}),
        observation(2, **failing),
        {"unknown": "record"},
    )
    traces = written(tmp_path, "traces.jsonl", trace)
    score = {"traceId": UUID, "name": "accuracy", "value": 0.5, "dataType": "NUMERIC"}
    scores = written(tmp_path, "scores.json", [score], indent=2)
    files = (observations, traces, scores)

    status, said, why = imported(site, "langfuse", *files)
    assert (status, said) == (1, "imported 3, 0 were there already, refused 0, left out 1")
    assert "records that are no trace, observation or score" in why

    (run,) = wait_until(lambda: list(runs(site).values()), timeout=60)
    assert run["trace_id"] == UUID.replace("-", "")
    assert (run["session_id"], run["user_id"]) == ("s-1", "u-1")
    assert (run["model_calls"], run["tokens"], run["errors"]) == (2, 30, 1)
    (listed,) = http("GET", f"{site.url}/v1/scores?trace_id={run['trace_id']}").json()["scores"]
    assert (listed["name"], listed["value"]) == ("accuracy", 0.5)

    assert imported(site, "langfuse", *files)[1].startswith("imported 1, 2 were there already")
    assert rows(site, "SELECT count(), uniqExact(SpanId) FROM otel_spans") == [[2, 2]]
    again = http("GET", f"{site.url}/v1/scores").json()["scores"]
    assert [each["id"] for each in again] == [listed["id"]]


def test_langfuse_traces_of_its_api_and_blob_exports_are_read(site, tmp_path):
    nested = {"id": TRACE, "timestamp": "2026-11-01T10:00:00Z", "name": "nested"}
    nested |= {"observations": [{**observation(1), "traceId": TRACE}], "scores": []}
    page = written(tmp_path, "page.json", {"data": [nested], "meta": {"page": 1}}, indent=1)
    blob = {"id": "b1", "trace_id": UUID, "type": "TOOL", "name": "weather"}
    blob |= {"start_time": "2026-11-01 10:00:00.000", "end_time": "2026-11-01 10:00:01.000"}
    blob |= {"input": '{"city": "Lima"}', "output": "sunny", "parent_observation_id": None}
    exported = written(tmp_path, "observations.jsonl", blob)

    assert imported(site, "langfuse", page, exported)[:2] == (
        0,
        "imported 2, 0 were there already, refused 0, left out 0",
    )
    found = wait_until(lambda: runs(site) if len(runs(site)) == 2 else None, timeout=60)
    assert found[TRACE]["tokens"] == 15
    assert found[UUID.replace("-", "")]["tool_calls"] == 1


def test_otlp_files_are_imported_once_and_logs_are_left_out(site, tmp_path):
    request = MessageToDict(fields.spans_of("both-openai"))
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    lines = written(tmp_path, "spans.jsonl", request, {"resourceLogs": []})

    status, said, why = imported(site, "otlp-json", lines)
    count = sum(len(s["spans"]) for r in request["resourceSpans"] for s in r["scopeSpans"])
    assert (status, said) == (1, f"imported {count}, 0 were there already, refused 0, left out 1")
    assert "only resourceSpans are imported" in why
    wait_until(lambda: rows(site, "SELECT count() FROM otel_spans") == [[count]], timeout=60)

    assert imported(site, "otlp-json", lines)[1].startswith(f"imported 0, {count} were there")
    assert rows(site, "SELECT count() FROM otel_spans") == [[count]]


def test_exported_events_are_imported_into_another_collector_once(site, second, tmp_path):
    events = [{**example("agent.execution.completed"), "event_id": f"e{n}"} for n in range(7)]
    body = "\n".join(json.dumps(each) for each in events).encode()
    headers = {"Content-Type": "application/x-ndjson"}
    sent = http("POST", f"{site.url}/v1/events?wait=stored&timeout=60", body, headers)
    assert sent.status == 200
    exported = tmp_path / "events.ndjson"
    exported.write_bytes(http("GET", f"{site.url}/v1/export").body)

    assert imported(second, "jsonl", exported)[:2] == (
        0,
        "imported 7, 0 were there already, refused 0, left out 0",
    )
    wait_until(lambda: rows(second, "SELECT count() FROM agent_events") == [[7]], timeout=60)
    assert imported(second, "jsonl", exported)[1].startswith("imported 0, 7 were there already")


def test_a_repeated_import_before_the_store_has_it_is_recognised(site, tmp_path):
    file = written(tmp_path, "observations.jsonl", *(observation(n) for n in range(1, 9)))

    said = [imported(site, "langfuse", file)[1] for _ in range(3)]

    assert said[0].startswith("imported 8, 0 were there already")
    assert {each.partition(",")[0] for each in said[1:]} == {"imported 0"}
    wait_until(lambda: rows(site, "SELECT count() FROM otel_spans") == [[8]], timeout=60)


@pytest.mark.parametrize(
    ("content", "message"),
    [("not json", "neither JSON lines nor JSON"), ('{"a": 1}\n{', "line 2 is no JSON")],
)
def test_files_that_are_no_records_are_named(site, tmp_path, content, message):
    file = tmp_path / "bad.jsonl"
    file.write_text(content)

    status, _, why = imported(site, "jsonl", file)

    assert status == 2
    assert f"{file}: " in why
    assert message in why
    assert imported(site, "jsonl", tmp_path / "missing")[0] == 2
