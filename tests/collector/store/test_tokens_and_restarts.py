"""Tokens outlive the engine: also those of inserts into a schema that was made by the same process."""

import json
import uuid

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.conftest import RECEIVED, connect
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.tables import count_all


def bodies():
    """An event that tells a span, and a span."""
    event = {
        "event_id": "e1",
        "event_type": "agent.execution.failed",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "t",
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


def test_what_was_stored_before_a_restart_is_not_stored_again_after_it(tmp_path):
    token, counted, summed = uuid.uuid4().hex, [], []
    sums = "SELECT sum(events), sum(spans), sum(errors) FROM trace_summaries"
    for start in range(2):
        with Supervisor(EngineSettings(store_dir=tmp_path / "store")) as engine:
            store = connect(engine, "tracereel")
            if not start:
                migrate(store)
            for body in bodies():
                store.insert(body.kind, [body], token=f"{token}:{body.id}")
            # Emitters that were not heard of for long are forgotten by the store itself.
            counted.append(
                {name: rows for name, rows in count_all(store).items() if "emitter" not in name}
            )
            summed.append(store.rows(sums))
            store.close()

    assert counted[0]["agent_events"] == 1
    assert counted[0]["otel_spans"] >= 1
    assert counted[1] == counted[0]
    assert summed[1] == summed[0]
