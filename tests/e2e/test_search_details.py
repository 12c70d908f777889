"""What a list of runs says about each: the passage with the searched words, and scores."""

import json
import time
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.browser import ended
from tests.support.collector import http
from tests.support.waiting import wait_until


def found(collector, query):
    answer = http("GET", f"{collector.url}/v1/traces?{query}")
    assert answer.status == 200, answer.body
    return answer.json()["traces"]


@pytest.mark.parametrize("words", ["parcel", "dhl%20lost", "%22sent%20by%20dhl%22"])
def test_a_run_found_by_its_words_shows_where_they_stand(collector, trace_id, words):
    said = "a climate change … the PARCEL, sent by DHL, is lost"
    collector.post_events([ended(trace_id, user_id=trace_id, output_summary=said)])

    (run,) = found(collector, f"user={trace_id}&q={words}")

    assert "sent by DHL, is lost" in run["passage"]


def test_a_passage_is_short_and_begins_near_the_whole_word(collector, trace_id):
    said = f"{'climate ' * 200}lima {'ñandú ' * 200}"
    collector.post_events([ended(trace_id, user_id=trace_id, output_summary=said)])

    (run,) = found(collector, f"user={trace_id}&q=lima")

    assert run["passage"].startswith("…")
    assert run["passage"].endswith("…")
    assert len(run["passage"]) <= 242
    assert run["passage"].index(" lima ñandú") < 80


def test_a_passage_of_a_linked_span_is_that_of_its_run(collector, trace_id):
    otel = uuid.uuid4().hex
    own = {"otel_trace_id": otel, "span_id": uuid.uuid4().hex[:16]}
    collector.post_events([ended(trace_id, user_id=trace_id, **own)])
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat")
    span.trace_id, span.span_id = bytes.fromhex(otel), uuid.uuid4().bytes[:8]
    span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
    span.status.message = "the otter refused"
    span.status.code = 2
    http(
        *("POST", f"{collector.url}/v1/traces", request.SerializeToString()),
        {"Content-Type": "application/x-protobuf"},
    )

    def run():
        return found(collector, f"user={trace_id}&q=otter")

    (made,) = wait_until(run, timeout=30)
    assert made["passage"] == "the otter refused"


def test_without_words_there_is_no_passage(collector, trace_id):
    collector.post_events([ended(trace_id, user_id=trace_id)])

    (run,) = found(collector, f"user={trace_id}")

    assert "passage" not in run


def test_scores_of_a_run_are_listed_with_it_newest_first(collector, trace_id):
    collector.post_events([ended(trace_id, user_id=trace_id)])
    scores = [
        {"id": "a", "trace_id": trace_id, "name": "helpful", "value": 0.5},
        {"id": "b", "trace_id": trace_id, "name": "tone", "value": "friendly", "span_id": "ab" * 8},
        {"id": "a", "trace_id": trace_id, "name": "helpful", "value": 0.75},
        {"id": "c", "trace_id": trace_id, "name": "correct", "value": False},
        {"id": "d", "trace_id": trace_id, "name": "note", "comment": "look at this"},
    ]
    for each in scores:
        http("POST", f"{collector.url}/v1/scores?wait=stored&timeout=60", json.dumps(each).encode())

    (run,) = found(collector, f"user={trace_id}&scores=3")

    assert run["scores"] == [
        {"name": "note", "value": None, "of_step": False},
        {"name": "correct", "value": False, "of_step": False},
        {"name": "helpful", "value": 0.75, "of_step": False},
    ]
    (run,) = found(collector, f"user={trace_id}&scores=20")
    assert run["scores"][-1] == {"name": "tone", "value": "friendly", "of_step": True}
