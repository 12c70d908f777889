"""Poison records on a real queue and engine: isolated with a reason, retried or dropped."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.test_delivery import LIMITS, deliver, stored
from tests.support.conservation import conserved_queue
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue


@pytest.fixture
def queue(tmp_path):
    opened = DurableQueue(tmp_path / "queue.sqlite", LIMITS)
    yield opened
    opened.close()


@pytest.fixture
def picky(store):
    """Store whose tables refuse poison records as ClickHouse refuses invalid ones."""
    rules = {"agent_events": "event_id NOT LIKE 'poison%'", "otel_spans": "SpanName != 'poison'"}
    for table, rule in rules.items():
        store.command(f"ALTER TABLE {table} ADD CONSTRAINT harmless CHECK {rule}")
    yield store
    for table in rules:
        store.command(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS harmless")


def event(name, **fields):
    return json.dumps(
        {
            "event_id": name,
            "event_type": "custom.x",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": "t",
            **fields,
        }
    ).encode()


def spans(names):
    """Return two resources with two scopes each, to check that splitting keeps them together."""
    request = ExportTraceServiceRequest()
    for number, name in enumerate(names):
        if number % 4 == 0:
            resource = request.resource_spans.add(schema_url=f"schema-{number}")
            resource.resource.attributes.add(key="service.name").value.string_value = f"s{number}"
        if number % 2 == 0:
            scope = resource.scope_spans.add()
            scope.scope.name = f"scope{number}"
        scope.spans.add(
            name=name, trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), start_time_unix_nano=1
        )
    return request.SerializeToString()


def append(queue, data, records, kind=Kind.EVENTS):
    body = Body(kind=kind, tenant="default", received_unix_nano=10**18, data=data, records=records)
    return queue.append(body).result(10)


def test_one_refused_event_among_ten_thousand_is_set_aside_and_the_rest_stored(picky, queue):
    for first in range(0, 10_000, 100):
        names = [f"e{first + n}" for n in range(100)]
        if first == 6_200:
            names[37] = "poison"
        append(queue, b"\n".join(map(event, names)), 100)

    deliver(queue, picky)

    assert stored(picky) == 9_999
    counts = conserved_queue(queue)
    assert (counts["stored"], counts["quarantined"]) == (9_999, 1)
    (entry,) = queue.quarantine.entries(tenant="default")
    assert (entry.sequence_number, entry.records) == (6_238, 1)
    assert "constraint" in entry.reason.lower()
    assert queue.quarantine.entry(entry.id, tenant="default").data == event("poison")


def test_one_refused_span_of_a_request_is_set_aside_and_the_others_keep_their_resource(
    picky, queue
):
    names = [f"span{n}" for n in range(7)]
    names[5] = "poison"
    append(queue, spans(names), 7, Kind.SPANS)

    deliver(queue, picky, Kind.SPANS)

    rows = picky.rows("SELECT SpanName, ServiceName, ScopeName FROM otel_spans ORDER BY SpanName")
    assert rows == [
        (f"span{n}", f"s{n // 4 * 4}", f"scope{n // 2 * 2}") for n in range(7) if n != 5
    ]
    counts = conserved_queue(queue, "spans")
    assert (counts["stored"], counts["quarantined"]) == (6, 1)
    (entry,) = queue.quarantine.entries(tenant="default")
    kept = ExportTraceServiceRequest.FromString(
        queue.quarantine.entry(entry.id, tenant="default").data
    )
    assert kept.resource_spans[0].scope_spans[0].spans[0].name == "poison"
    assert entry.sequence_number == 6


def test_retried_quarantine_entry_keeps_its_sequence_number(picky, queue):
    append(queue, b"\n".join([event("a"), event("poison"), event("c")]), 3)
    deliver(queue, picky)
    (entry,) = queue.quarantine.entries(tenant="default")

    assert queue.quarantine.retry(entry.id, tenant="default")
    deliver(queue, picky)  # still refused: it returns to quarantine
    (again,) = queue.quarantine.entries(tenant="default")
    picky.command("ALTER TABLE agent_events DROP CONSTRAINT harmless")
    assert queue.quarantine.retry(again.id, tenant="default")
    deliver(queue, picky)

    rows = picky.rows(
        "SELECT event_id, sequence_number, toUnixTimestamp64Nano(ingested_at) FROM agent_events"
        " ORDER BY sequence_number"
    )
    assert rows == [(name, str(n), str(10**18)) for n, name in enumerate(["a", "poison", "c"], 1)]
    assert queue.quarantine.entries(tenant="default") == []
    counts = conserved_queue(queue)
    assert (counts["stored"], counts["quarantined"], counts["retried"]) == (3, 2, 2)
    assert queue.pressure().quarantined_bytes == 0


def test_dropped_quarantine_entry_stays_counted_and_frees_space(picky, queue):
    append(queue, event("poison"), 1)
    deliver(queue, picky)
    (entry,) = queue.quarantine.entries(tenant="default")

    assert queue.quarantine.drop(entry.id, tenant="default")

    assert not queue.quarantine.drop(entry.id, tenant="default")
    assert not queue.quarantine.retry(entry.id, tenant="default")
    assert queue.quarantine.entries(tenant="default") == []
    assert queue.pressure().quarantined_bytes == 0
    counts = conserved_queue(queue)
    assert (counts["quarantined"], counts["dropped"]) == (1, 1)


def test_another_tenants_quarantine_is_neither_seen_nor_touched(picky, queue):
    append(queue, event("poison"), 1)
    deliver(queue, picky)
    (entry,) = queue.quarantine.entries(tenant="default")

    assert queue.quarantine.entries(tenant="other") == []
    assert queue.quarantine.entry(entry.id, tenant="other") is None
    assert not queue.quarantine.retry(entry.id, tenant="other")
    assert not queue.quarantine.drop(entry.id, tenant="other")
    assert queue.quarantine.entries(tenant="default") == [entry]


def test_timestamps_from_any_age_are_stored_in_one_batch(store, queue):
    """More days than ClickHouse allows partitions per insert, and both ends of the calendar."""
    lines = [
        event(f"d{day}", timestamp=f"20{day % 90 + 10:02d}-{day % 12 + 1:02d}-01T00:00:00Z")
        for day in range(150)
    ]
    lines += [event("first", timestamp="1970-01-01T00:00:00Z")]
    lines += [event("last", timestamp="2261-12-31T23:59:59.999999999Z")]
    append(queue, b"\n".join(lines), 152)

    deliver(queue, store)

    assert stored(store) == 152
    assert store.rows("SELECT uniqExact(_partition_id) FROM agent_events") == [("1",)]
    assert conserved_queue(queue)["quarantined"] == 0


def test_spans_with_impossible_times_are_stored(store, queue):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, (start, end) in enumerate([(0, 0), (2**64 - 1, 2**64 - 1), (2**63, 1), (5, 1)]):
        scope.spans.add(
            name=f"span{number}",
            trace_id=b"t" * 16,
            span_id=(number + 1).to_bytes(8, "big"),
            start_time_unix_nano=start,
            end_time_unix_nano=end,
        )
    append(queue, request.SerializeToString(), 4, Kind.SPANS)

    deliver(queue, store, Kind.SPANS)

    assert stored(store, "otel_spans") == 4
    assert conserved_queue(queue, "spans")["stored"] == 4


def test_batch_too_large_for_the_store_is_split(store, queue):
    class Small:
        """Real store with memory for a limited number of records."""

        def __init__(self):
            self.tried = []

        def insert(self, kind, bodies, *, token):
            records = sum(body.records for body in bodies)
            self.tried.append(records)
            if records > 30:
                # A real engine error: the limit is below the need of any insert.
                store.command("SELECT sum(number) FROM numbers(1) SETTINGS max_memory_usage = 1")
            store.insert(kind, bodies, token=token)

        missing = staticmethod(store.missing)
        without_stored = staticmethod(store.without_stored)

    small = Small()
    for first in range(0, 200, 50):
        append(queue, b"\n".join(event(f"e{first + n}") for n in range(50)), 50)

    deliver(queue, small)

    assert stored(store) == 200
    assert store.rows("SELECT uniqExact(event_id) FROM agent_events") == [("200",)]
    assert conserved_queue(queue)["stored"] == 200
    assert small.tried.count(200) <= 4
