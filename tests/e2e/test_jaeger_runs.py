"""Our own runs in Jaeger's API: ended, running, crashed, with and without spans."""

import json
import time

import pytest

from tests.support.collector import http
from tests.support.contract import EXAMPLES
from tests.support.jaeger import SECOND, JaegerSite, new_id
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def site(collector):
    return JaegerSite(collector)


def own(number, **fields):
    """Return a contract event with the current time."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {**EXAMPLES[number], "timestamp": moment, **fields}


def test_a_run_of_plain_events_is_a_trace_found_by_its_own_name(site, trace_id):
    """Contract events have no spans, so spans are derived from them."""
    marked = {"trace_id": trace_id, "service": site.name("plain")}
    site.events(
        *(own(n, **marked, event_id=f"{trace_id}-{n}") for n in (0, 1, 6, 7)),
    )

    (trace,) = site.data(f"/api/traces/{trace_id}")
    pipeline, agent = sorted(trace["spans"], key=lambda each: len(each["references"]))
    assert pipeline["operationName"] == "invoke_workflow appointment_creation"
    assert agent["operationName"] == "invoke_agent parsing_agent"
    assert agent["references"] == [
        {"refType": "CHILD_OF", "traceID": trace["traceID"], "spanID": pipeline["spanID"]}
    ]
    assert agent["duration"] == 1_850_000
    tags = {each["key"]: (each["type"], each["value"]) for each in agent["tags"]}
    assert tags["trace_id"] == ("string", trace_id)
    assert tags["gen_ai.usage.input_tokens"] == ("int64", 287)
    assert tags["llm.cost_usd"] == ("float64", 0.00042)
    assert tags["span.kind"] == ("string", "internal")
    assert site.data(f"/api/traces/{trace['traceID']}") == [trace]
    (found,) = site.data("/api/traces", service=site.name("plain"), tag=f"trace_id:{trace_id}")
    assert found == trace


def test_an_execution_that_has_only_begun_is_shown_as_running(site, trace_id):
    begun = own(0, trace_id=trace_id, event_id=f"{trace_id}-0", service=site.name("busy"))
    begun |= {"span_id": "a" * 16, "otel_trace_id": new_id()}
    site.events(begun)

    (trace,) = site.data("/api/traces", service=site.name("busy"))
    (running,) = trace["spans"]
    assert trace["traceID"] == begun["otel_trace_id"]
    assert running["spanID"] == "a" * 16
    assert {"key": "tracereel.state", "type": "string", "value": "running"} in running["tags"]
    assert running["warnings"] == ["running: no event closed it"]
    assert site.data("/api/traces", service=site.name("busy"), minDuration="1ns") == []

    start = time.time_ns() - SECOND
    site.events(
        own(1, trace_id=trace_id, event_id=f"{trace_id}-1", service=site.name("busy"))
        | {key: begun[key] for key in ("span_id", "otel_trace_id")}
        | {
            "span_name": "invoke_agent parsing_agent",
            "span_start_unix_nano": start,
            "span_end_unix_nano": start + 5_000_000,
        },
        own(4, trace_id=trace_id, event_id=f"{trace_id}-2", span_id="a" * 16)
        | {"otel_trace_id": begun["otel_trace_id"]},
    )
    (ended,) = site.data(f"/api/traces/{trace_id}")[0]["spans"]
    assert (ended["duration"], ended["warnings"]) == (5_000, None)
    assert "tracereel.state" not in {each["key"] for each in ended["tags"]}
    (log,) = ended["logs"]
    assert log["fields"][0]["key"] == "event"
    assert {"key": "attempt", "type": "int64", "value": 2} in log["fields"]


def test_an_execution_whose_program_has_ended_is_shown_as_crashed(site, trace_id):
    emitter = f"emitter-{trace_id}"
    site.events(
        own(0, trace_id=trace_id, event_id=trace_id, service=site.name("gone"))
        | {"span_id": "b" * 16, "otel_trace_id": new_id(), "emitter_id": emitter, "emitter_seq": 1}
    )
    heartbeat = {
        "emitter_id": emitter,
        "sent_at": "2026-01-23T10:00:00Z",
        "started_at": "2026-01-23T10:00:00Z",
        "state": "ended",
        "interval_seconds": 10,
        "recorded": 1,
        "delivered": 1,
        "rejected": 0,
        "spooled": 0,
        "dropped": {},
        "service": "s",
        "host": "h",
        "pid": 1,
        "sdk_version": "0",
    }
    url = f"{site.collector.url}/v1/heartbeats"
    assert http("POST", url, json.dumps(heartbeat).encode()).status == 200

    def shown():
        (trace,) = site.data(f"/api/traces/{trace_id}")
        (one,) = trace["spans"]
        return {each["key"]: each["value"] for each in one["tags"]}

    wait_until(lambda: shown()["tracereel.state"] == "crashed")
    assert shown()["error"] is True
    assert shown()["otel.status_description"] == "its program ended before it did"
