"""The contract's examples are returned by the replay with every field intact."""

import gzip
import json

import pytest

from tests.support.collector import http
from tests.support.contract import EXAMPLES, PRINTED

MAIN = "trc_main_abc123"


def details_by_id(collector, trace_id, key=None):
    answer = collector.replay(trace_id, headers={"x-api-key": key} if key else None)
    assert answer.status == 200, answer.body
    return {entry["details"]["event_id"]: entry["details"] for entry in answer.json()["timeline"]}


SHAPES = {
    "one by one, as printed": list(PRINTED),
    "an array": [b"[" + b",\n".join(PRINTED) + b"]"],
    "one per line": [b"\n".join(json.dumps(each).encode() for each in EXAMPLES)],
    "with Windows line ends": [b"\r\n".join(json.dumps(each).encode() for each in EXAMPLES)],
}


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """Return a collector with one tenant per shape, to keep them separate."""
    from tests.support.collector import CollectorProcess

    keys = ",".join(f"tenant{n}:a-key-of-these-tests-{n}" for n in range(2 * len(SHAPES)))
    running = CollectorProcess(
        tmp_path_factory.mktemp("tenants"), environ={"TRACEREEL_API_KEYS": keys}
    ).start()
    yield running
    running.stop()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_examples_come_back_as_they_were_sent(tenants, shape, packed):
    key = f"a-key-of-these-tests-{list(SHAPES).index(shape) * 2 + packed}"
    for body in SHAPES[shape]:
        headers = {"Content-Type": "application/json", "x-api-key": key}
        if packed:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        answer = http("POST", f"{tenants.url}/v1/events?wait=stored&timeout=60", body, headers)
        assert answer.status == 200, answer.body
        assert answer.json()["rejected"] == []

    found = details_by_id(tenants, MAIN, key) | details_by_id(tenants, "trc_main_ghi789", key)

    for event in EXAMPLES:
        assert {name: found[event["event_id"]][name] for name in event} == event
    numbers = [found[event["event_id"]]["sequence_number"] for event in EXAMPLES]
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def test_the_replay_is_chronological_and_counts_what_there_is(tenants):
    """Fallback and pipeline events have no agent; equal times keep the order of their numbers."""
    replay = tenants.replay(MAIN, headers={"x-api-key": "a-key-of-these-tests-0"}).json()

    assert [entry["event"].removeprefix("agent.") for entry in replay["timeline"]] == [
        "execution.started",
        "pipeline.started",
        "decision.recorded",
        "execution.completed",
        "pipeline.completed",
        "retry.attempted",
        "fallback.triggered",
    ]
    assert replay["timeline"][0]["time"] == "2026-01-23T10:00:00Z"
    summary = replay["summary"]
    assert replay["trace_id"] == MAIN
    assert (summary["total_events"], summary["agents_executed"]) == (7, 2)
    assert (summary["errors"], summary["retries"], summary["fallbacks"]) == (0, 1, 1)
    assert summary["total_time_ms"] == 60_000
    assert summary["agents"] == ["parsing_agent", "temporal_agent"]


def test_tenants_do_not_see_each_other(tenants):
    event = {**EXAMPLES[0], "event_id": "mine", "trace_id": "only-mine", "tenant": "tenant0"}
    answer = tenants.post_events(
        [event], headers={"Authorization": "Bearer a-key-of-these-tests-0"}
    )
    assert answer.status == 200
    claimed = {**event, "event_id": "forged", "tenant": "tenant1"}
    answer = tenants.post_events(
        [claimed], headers={"Authorization": "Bearer a-key-of-these-tests-0"}
    )
    assert answer.status == 403

    assert (
        tenants.replay("only-mine", headers={"x-api-key": "a-key-of-these-tests-0"}).status == 200
    )
    assert (
        tenants.replay("only-mine", headers={"x-api-key": "a-key-of-these-tests-1"}).status == 404
    )
    assert tenants.replay("only-mine", headers={"x-api-key": "wrong"}).status == 401
    assert tenants.replay("only-mine").status == 401
    own = tenants.replay("only-mine", headers={"x-api-key": "a-key-of-these-tests-0"}).json()
    assert own["timeline"][0]["details"]["tenant"] == "tenant0"
