"""Tables behind Jaeger's APIs: attribute types, names, spans derived from events."""

import json
import time

import pytest

from tests.support.contract import EXAMPLES
from tracereel_collector.model import Kind
from tracereel_collector.query.jaeger.reader import Jaeger, JaegerSearch

DAY = 86_400 * 10**9


def rows(store, statement):
    return [
        json.loads(line) for line in store.select(statement, {}, fmt="JSONEachRow").splitlines()
    ]


def test_runs_are_listed_by_service_and_operation(store, queued, token):
    lines = [json.dumps({**each, "service": "clinic"}).encode() for each in EXAMPLES]
    store.insert(Kind.EVENTS, [queued(b"\n".join(lines))], token=token)

    jaeger = Jaeger(store, now_unix_nano=lambda: 0)
    assert jaeger.services("default") == ["clinic"]
    assert ("invoke_agent parsing_agent", "internal") in jaeger.operations("default", "clinic")
    assert jaeger.services("another") == []
    found = jaeger.find(
        "default", JaegerSearch(service="clinic", start=0, end=2**62, tags={}, limit=10)
    )
    assert len(found) == 2


def test_a_span_that_is_closed_hides_the_one_that_began(store, queued, token):
    began = {**EXAMPLES[0], "trace_id": "one", "span_id": "a" * 16, "otel_trace_id": "c" * 32}
    ended = {**EXAMPLES[1], "trace_id": "one", "span_id": "a" * 16, "otel_trace_id": "c" * 32}
    ended |= {"span_name": "n", "span_start_unix_nano": 10**18, "span_end_unix_nano": 10**18 + 9}
    store.insert(Kind.EVENTS, [queued(json.dumps(began).encode())], token=f"{token}1")
    jaeger = Jaeger(store, now_unix_nano=lambda: 2 * 10**18)

    (trace,) = jaeger.traces("default", ["c" * 32])
    assert [each.is_open for each in trace.spans] == [True]
    assert trace.spans[0].took == 2 * 10**18 - 1_769_162_400 * 10**9

    store.insert(Kind.EVENTS, [queued(json.dumps(ended).encode())], token=f"{token}2")
    (trace,) = jaeger.traces("default", ["c" * 32])
    assert [(each.name, each.took, each.is_open) for each in trace.spans] == [("n", 9, False)]


def test_early_end_heartbeat_does_not_mark_the_span_as_crashed(migrated, told, beat, tenant):
    """As in the list of runs: events that are claimed but not stored are still in flight."""
    began = {**EXAMPLES[0], "trace_id": "late", "span_id": "a" * 16, "otel_trace_id": "d" * 32}
    told({**began, "emitter_id": "emt_1", "emitter_seq": 1})
    jaeger = Jaeger(migrated, now_unix_nano=time.time_ns)

    def shown():
        ((span,),) = (each.spans for each in jaeger.traces(tenant, ["d" * 32]))
        return span.attributes["tracereel.state"], span.status

    beat("emt_1", "ended", recorded=2)
    assert shown() == ("running", "Unset")

    told({**began, "trace_id": "other", "emitter_id": "emt_2", "otel_trace_id": "e" * 32})
    beat("emt_2", "ended")
    (other,) = jaeger.traces(tenant, ["e" * 32])
    assert other.spans[0].attributes["tracereel.state"] == "crashed"
    assert other.spans[0].status == "Error"


def test_an_event_as_odd_as_can_be_does_not_stop_the_view(store, queued, token):
    """Views never throw: a duration of 10^30 ms, and times out of every range."""
    odd = [
        {**EXAMPLES[1], "event_id": f"odd-{number}", "trace_id": f"odd-{number}", **fields}
        for number, fields in enumerate(
            [
                {"execution_time_ms": 2**64 - 1},
                {"timestamp": "1900-01-01T00:00:00Z", "execution_time_ms": 10},
                {"timestamp": "2262-04-11T23:47:16Z"},
                {"agent_name": "", "request_id": None},
            ]
        )
    ]
    body = b"\n".join(json.dumps(each).encode() for each in odd)
    store.insert(Kind.EVENTS, [queued(body)], token=token)

    names = [each["SpanName"] for each in rows(store, "SELECT SpanName FROM untold_spans")]
    assert len([each for each in names if each.startswith("invoke_agent")]) >= 4


def test_response_is_limited_in_spans_and_marked(store, queued, token, monkeypatch):
    monkeypatch.setattr("tracereel_collector.query.jaeger.reader.MAX_SPANS", 3)
    events = [
        {
            **EXAMPLES[1],
            "event_id": f"{token}{number}",
            "trace_id": "many",
            "execution_id": str(number),
        }
        for number in range(5)
    ]
    body = b"\n".join(json.dumps(each).encode() for each in events)
    store.insert(Kind.EVENTS, [queued(body)], token=token)
    jaeger = Jaeger(store, now_unix_nano=lambda: 0)

    (trace_id,) = jaeger.resolve("default", "many")
    (trace,) = jaeger.traces("default", [trace_id])
    assert (len(trace.spans), trace.cut) == (3, True)


@pytest.fixture(autouse=True)
def empty(request):
    if "store" in request.fixturenames:
        store = request.getfixturevalue("store")
        for table in ("agent_events", "span_names"):
            store.command(f"TRUNCATE TABLE {table}")
