"""One corpus for several collectors: the same bytes in the same order."""

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.collector.store.dialects import golden
from tests.support.collector import http
from tests.support.contract import PRINTED
from tests.support.engine_store import store_at
from tests.support.ingest_sink import IngestSink
from tests.support.store_client import address_of
from tests.support.stored_fleets import fleet_events
from tests.support.waiting import wait_until
from tracereel_collector.store.settling import unsettled

JSON, NDJSON, PROTOBUF = "application/json", "application/x-ndjson", "application/x-protobuf"
KINDS = ("events", "spans", "logs", "metrics", "heartbeats", "scores")
EARLY = 1_769_162_400_000_000_000


@dataclass(frozen=True)
class Body:
    """One request."""

    path: str
    media: str
    data: bytes


def corpus() -> list[Body]:
    """Return events of the SDK and of the contract, spans of every dialect, logs, metrics, scores."""
    name = uuid.uuid4().hex[:8]
    with IngestSink() as sink:
        environ = {**os.environ, "TRACEREEL_ENDPOINT": sink.url, "TRACEREEL_RECORD": "all"}
        program = [sys.executable, "-m", "tests.support.run_corpus", name]
        subprocess.run(program, env=environ, check=True, timeout=120, capture_output=True)
        made = [
            Body("/v1/events", NDJSON, b"\n".join(request.lines))
            for request in sink.requests
            if request.path.endswith("/v1/events")
        ]
    made.append(Body("/v1/events", NDJSON, b"\n".join(b" ".join(e.split()) for e in PRINTED)))
    event, span = _undated()
    made += [Body("/v1/events", JSON, event), Body("/v1/traces", JSON, span)]
    made += [Body("/v1/traces", PROTOBUF, body) for body in golden.bodies().values()]
    made += [Body("/v1/logs", PROTOBUF, _logs()), Body("/v1/metrics", PROTOBUF, _metrics())]
    made.append(Body("/v1/heartbeats", JSON, _beat()))
    scores = [
        {"trace_id": f"{kind}-{name}", "id": f"{kind}-{label}", "name": label, "value": number}
        for number, (kind, label) in enumerate(
            [("success", "helpful"), ("failure", "helpful"), ("success", "brief")]
        )
    ]
    made.append(Body("/v1/scores", JSON, json.dumps(scores).encode()))
    made.append(Body("/v1/events", JSON, json.dumps(fleet_events(f"fleet_{name}")).encode()))
    return made


def load(collector, bodies: list[Body]) -> None:
    """Send the bodies one after the other; return when all are stored and their sums are settled."""
    for body in bodies:
        answer = http("POST", collector.url + body.path, body.data, {"Content-Type": body.media})
        assert answer.status == 200, (body.path, answer.body)
    for kind in KINDS:
        wait_until(
            lambda kind=kind: collector.metric("tracereel_records_pending", kind=kind) == 0,
            timeout=60,
            message=f"{kind} are not stored",
        )
    address = address_of(collector)
    store = store_at(address, address.database)
    try:
        wait_until(lambda: unsettled(store) == [], timeout=120, message="traces are not settled")
    finally:
        store.close()


def _undated() -> tuple[bytes, bytes]:
    """Return an event and a span of programs that do not know the time."""
    event = {"event_id": "undated", "event_type": "custom.undated", "trace_id": "undated"}
    span = {"traceId": "0" * 31 + "9", "spanId": "0" * 15 + "9", "name": "undated"}
    spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    event["timestamp"] = "1970-01-01T00:00:00Z"
    return json.dumps(event).encode(), json.dumps(spans).encode()


def _logs() -> bytes:
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "desk"
    for number in range(20):
        record = resource.scope_logs.add().log_records.add(
            time_unix_nano=EARLY + number, trace_id=bytes([number % 3 + 1] * 16)
        )
        record.body.string_value = f"line {number}"
    return bytes(request.SerializeToString())


def _metrics() -> bytes:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for number in range(20):
        gauge = metrics.add(name=f"gauge_{number}").gauge.data_points.add()
        gauge.time_unix_nano, gauge.as_double = EARLY + number, number / 3
        total = metrics.add(name=f"sum_{number}").sum.data_points.add()
        total.time_unix_nano, total.as_int = EARLY + number, number
        histogram = metrics.add(name=f"histogram_{number}").histogram.data_points.add()
        histogram.time_unix_nano, histogram.count, histogram.sum = EARLY + number, 3, 6.0
        histogram.bucket_counts.extend([1, 2])
        histogram.explicit_bounds.append(1.5)
    return bytes(request.SerializeToString())


def _beat() -> bytes:
    beat = {"emitter_id": "emt_same", "state": "ended", "interval_seconds": 10, "recorded": 3}
    return json.dumps([{**beat, "sent_at": datetime.now(UTC).isoformat()}]).encode()
