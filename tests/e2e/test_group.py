"""Several collectors of one group: whatever is sent to any of them, and again, is stored once."""

import json
from collections import Counter

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.collector import http
from tests.support.collector_group import CollectorGroup
from tests.support.conservation import conserved, conserved_group
from tests.support.waiting import wait_until
from tracereel_collector.group.ownership import Ownership

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    made = CollectorGroup(tmp_path_factory.mktemp("group"), grpc=True).start()
    wait_until(lambda: all(set(made.peer_states(each).values()) == {"ok"} for each in "abc"))
    yield made
    made.close()


def event(event_id, **fields):
    return {
        "event_id": event_id,
        "event_type": "custom.group",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": event_id.split("/")[0],
        **fields,
    }


def emitter_of(owner, group, run):
    """Return an emitter of a test that a member owns."""
    ownership = Ownership(group.collectors)
    return next(
        name
        for name in (f"{run}-{number}" for number in range(1000))
        if ownership.of_emitter("default", name) == owner
    )


def numbered(run, emitter, numbers):
    return [event(f"{run}/{number}", emitter_id=emitter, emitter_seq=number) for number in numbers]


def test_numbered_events_sent_through_every_member_are_stored_once(group):
    emitter = emitter_of("b", group, "resent")
    events = numbered("resent", emitter, range(1, 11))
    for each in group:
        answer = each.post_events(events)
        assert answer.status == 200
    # Ranges that overlap, as after a resend with more events.
    assert group["c"].post_events(numbered("resent", emitter, range(5, 16))).status == 200
    group.settle()
    found = {name: times for name, times in group.stored_events().items() if "resent/" in name}
    assert found == {f"resent/{number}": 1 for number in range(1, 16)}


def test_the_answer_to_a_relayed_body_has_numbers_only_when_it_waits_for_the_owner(group):
    events = numbered("answers", emitter_of("a", group, "answers"), range(1, 4))
    quick = group["b"].post_events(events, wait=False).json()
    assert quick["accepted"] == 3
    assert quick["first_sequence_number"] is None
    wait_until(lambda: group["b"].metric("tracereel_records_pending", kind="events") == 0)
    again = group["c"].post_events(events).json()
    assert (again["accepted"], again["duplicates"], again["status"]) == (0, 3, "stored")
    more = numbered("answers", emitter_of("a", group, "answers"), range(4, 6))
    stored = group["b"].post_events(more).json()
    assert (stored["accepted"], stored["status"]) == (2, "stored")
    rows = group.rows(
        "SELECT min(sequence_number) FROM agent_events WHERE event_id IN ('answers/4', 'answers/5')"
    )
    assert rows == [(str(stored["first_sequence_number"]),)]
    entries = group["c"].replay("answers").json()["timeline"]
    assert len(entries) == 5


def test_a_body_with_emitters_of_all_members_and_without_any_is_split(group):
    emitters = {owner: emitter_of(owner, group, "split") for owner in "abc"}
    body = [
        *(numbered(f"split-{owner}", emitter, [1, 2]) for owner, emitter in emitters.items()),
        [event("split-none/1"), event("split-none/2"), {"event_type": "custom.bad"}],
        *(numbered(f"split-{owner}", emitter, [3]) for owner, emitter in emitters.items()),
    ]
    body = [each for part in body for each in part]
    for each in group:
        answer = each.post_events(body)
        assert answer.status == 200
        assert [each["index"] for each in answer.json()["rejected"]] == [8]
    group.settle()
    found = {name: times for name, times in group.stored_events().items() if "split-" in name}
    assert found == {each["event_id"]: 1 for each in body if "event_id" in each}


def trace_request(name):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(3):
        spans.add(
            trace_id=name.encode().ljust(16, b"\1"),
            span_id=b"%08d" % (number + 1),
            name=name,
            start_time_unix_nano=1_769_162_400_000_000_000,
            end_time_unix_nano=1_769_162_401_000_000_000,
        )
    return request


def spans_named(group, name):
    ((rows,),) = group.rows(f"SELECT count() FROM otel_spans WHERE SpanName = '{name}'")
    return int(rows)


def settle_spans(group):
    group.settle(kinds=("spans", "logs", "metrics"))


def test_otlp_sent_through_every_member_and_transport_is_stored_once(group):
    for number in range(4):  # several digests, so that every member owns some
        body = trace_request(f"protobuf-{number}").SerializeToString()
        for each in group:
            assert http("POST", f"{each.url}/v1/traces", body, PROTOBUF).status == 200
            with grpc.insecure_channel(f"127.0.0.1:{each.grpc_port}") as channel:
                export = channel.unary_unary(
                    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                    response_deserializer=ExportTraceServiceResponse.FromString,
                )
                assert export(body, timeout=20).partial_success.rejected_spans == 0
    spans = [
        {"traceId": "0" * 31 + "7", "spanId": f"{number:016x}", "name": "json"}
        for number in range(1, 4)
    ]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    for each in group:
        assert http("POST", f"{each.url}/v1/traces", body, JSON).status == 200
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(
        time_unix_nano=1
    ).body.string_value = "x"
    metrics = ExportMetricsServiceRequest()
    point = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="group_gauge")
    point.gauge.data_points.add(time_unix_nano=1, as_int=1)
    for each in group:
        for path, request in (("logs", logs), ("metrics", metrics)):
            body = request.SerializeToString()
            assert http("POST", f"{each.url}/v1/{path}", body, PROTOBUF).status == 200
    settle_spans(group)
    assert [spans_named(group, f"protobuf-{number}") for number in range(4)] == [3] * 4
    assert spans_named(group, "json") == 3
    assert group.rows("SELECT count() FROM otel_logs WHERE Body = 'x'") == [("1",)]
    for kind in ("spans", "logs", "metrics"):
        counted = conserved_group(group, kind)
        assert counted["duplicate"] == counted["stored"] * (5 if kind == "spans" else 2) - (
            9 if kind == "spans" else 0
        )


def test_heartbeats_and_scores_are_relayed_like_events(group):
    beat = {"emitter_id": "beats", "sent_at": "2026-01-23T10:00:00Z", "state": "alive"}
    score = {"id": "one-score", "trace_id": "scored", "name": "quality", "value": 0.5}
    for each in group:
        beats = json.dumps({**beat, "recorded": 5, "interval_seconds": 10}).encode()
        assert http("POST", f"{each.url}/v1/heartbeats", beats, JSON).status == 200
        answer = http(
            "POST", f"{each.url}/v1/scores?wait=stored&timeout=60", json.dumps(score).encode(), JSON
        )
        assert answer.json()["status"] == "stored"
    group.settle(kinds=("heartbeats", "scores"))
    assert group.rows("SELECT count() FROM emitters WHERE emitter_id = 'beats'") == [("1",)]
    scores = http("GET", f"{group['a'].url}/v1/scores?trace_id=scored").json()["scores"]
    assert [each["id"] for each in scores] == ["one-score"]


def test_the_counters_of_the_group_match_what_was_sent(group):
    before = conserved_group(group)
    for number, each in enumerate([*group, *group]):
        each.post_events(numbered("counted", "counted", range(1 + number * 5, 6 + number * 5)))
    group.settle()
    after = conserved_group(group)
    gained = Counter(after)
    gained.subtract(before)
    assert (gained["sent"], gained["stored"], gained["duplicate"]) == (30, 30, 0)
    assert gained["relayed"] == gained["from_peers"] == 20


def test_a_member_that_is_away_gets_its_events_when_it_returns(group):
    emitter = emitter_of("c", group, "away")
    group["c"].kill()
    events = numbered("away", emitter, range(1, 6))
    for name in "aba":
        assert group[name].post_events(events, wait=False).json()["accepted"] == 5
    # It is neither an error nor stored yet.
    url = f"{group['b'].url}/v1/events?wait=stored&timeout=0.2"
    body = json.dumps(numbered("away", emitter, [6])).encode()
    assert http("POST", url, body, JSON).status == 202
    # What the others own does not wait for it.
    local = group["a"].post_events(numbered("away-not", emitter_of("a", group, "away"), [100]))
    assert local.json()["status"] == "stored"
    conserved(group["b"], pending=6)
    group["c"].start()
    group.settle()
    found = {name: times for name, times in group.stored_events().items() if "away/" in name}
    assert found == {f"away/{number}": 1 for number in range(1, 7)}
    conserved_group(group)
