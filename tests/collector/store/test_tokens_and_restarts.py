"""Deduplication tokens survive engine restarts, also for a schema made by the same process."""

import json
import shutil
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.conftest import RECEIVED, connect
from tests.collector.store.test_delivery import LIMITS, deliver
from tests.support.engine_store import address_of
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.model import Body, Kind, QueuedBody
from tracereel_collector.queue import DurableQueue
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.tables import count_all


def bodies():
    """Return an event that implies a span, and a span."""
    event = {
        "event_id": "e1",
        "event_type": "agent.execution.failed",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "t",
        "parent_trace_id": "above",
        "agent_name": "booker",
        "error_message": "no slot",
        "span_id": "ab" * 8,
        "span_name": "booker",
        "span_start_unix_nano": RECEIVED,
        "span_end_unix_nano": RECEIVED + 1,
        "emitter_id": "emt",
        "emitter_seq": 1,
    }
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat")
    span.trace_id, span.span_id = b"1" * 16, b"2" * 8
    span.start_time_unix_nano = span.end_time_unix_nano = RECEIVED
    data = {
        Kind.EVENTS: json.dumps(event).encode(),
        Kind.SPANS: request.SerializeToString(),
        Kind.SCORES: json.dumps({"trace_id": "t", "id": "s", "name": "good"}).encode(),
        Kind.HEARTBEATS: json.dumps({"emitter_id": "emt", "state": "alive"}).encode(),
    }
    return [
        QueuedBody(
            id=number,
            kind=kind,
            tenant="default",
            first_sequence_number=number,
            records=1,
            received_unix_nano=RECEIVED,
            data=each,
        )
        for number, (kind, each) in enumerate(data.items(), 1)
    ]


@pytest.mark.parametrize("is_upgraded", [False, True])
def test_inserts_are_deduplicated_across_restarts(tmp_path, later, is_upgraded):
    token, counted, summed = uuid.uuid4().hex, [], []
    sums = "SELECT sum(events), sum(spans), sum(errors) FROM trace_summaries"
    if is_upgraded:
        sums += " UNION ALL SELECT sum(events), 0, 0 FROM run_links"
    for start in range(2):
        with Supervisor(EngineSettings(store_dir=tmp_path / "store")) as engine:
            store = connect(address_of(engine), "tracereel")
            if not start:
                migrate(store)
                if is_upgraded:  # with a changed view
                    migrate(store, later)
            for body in bodies():
                store.insert(body.kind, [body], token=f"{token}:{body.id}")
            counted.append(count_all(store))
            summed.append(sorted(store.rows(sums)))
            store.close()

    assert counted[0]["agent_events"] == 1
    assert counted[0]["otel_spans"] >= 1
    assert counted[1] == counted[0]
    assert summed[1] == summed[0]


@pytest.mark.fault
@pytest.mark.parametrize(
    ("kind", "table"), [(Kind.EVENTS, "agent_events"), (Kind.SPANS, "otel_spans")]
)
def test_rows_that_are_gone_although_their_token_is_known_are_stored_again(tmp_path, kind, table):
    """State after a kill between recording a token and writing its part."""
    (body,) = (each for each in bodies() if each.kind is kind)
    queue = DurableQueue(tmp_path / "queue.sqlite", LIMITS)
    queue.append(
        Body(
            kind=kind,
            tenant="default",
            received_unix_nano=RECEIVED,
            data=body.data,
            records=1,
        )
    ).result(10)
    batch = queue.next_batch(kind, max_records=10, max_bytes=1 << 20)
    settings = EngineSettings(store_dir=tmp_path / "store")
    with Supervisor(settings) as engine:
        store = connect(address_of(engine), "tracereel")
        migrate(store)
        store.insert(kind, queue.bodies_of(batch), token=batch.token)
        parts = store.rows(
            "SELECT path FROM system.parts"
            f" WHERE active AND database = 'tracereel' AND table = '{table}'"
        )
        store.close()
    for (path,) in parts:
        shutil.rmtree(path)
    with Supervisor(settings) as engine:
        store = connect(address_of(engine), "tracereel")
        assert store.rows(f"SELECT count() FROM {table}") == [("0",)]
        # The engine treats the same token as a duplicate.
        store.insert(kind, queue.bodies_of(batch), token=batch.token)
        assert store.rows(f"SELECT count() FROM {table}") == [("0",)]

        counted = deliver(queue, store, kind)

        assert store.rows(f"SELECT count() FROM {table}") == [("1",)]
        assert (counted["appended"], counted["stored"]) == (1, 1)
        store.close()
    queue.close()
