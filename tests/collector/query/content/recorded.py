"""Recordings of instrumentation packages (`record_talk.py`), stored and read back as content."""

import json
import uuid
from pathlib import Path

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.ingest.otlp_mend import flatten_deep_values
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.query.content.step import StepContent
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.trace import Traces

HERE = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in HERE.glob("*.json"))
RECEIVED = 1_769_162_400_000_000_000


def reader(store):
    """Return the query for the content of a step."""
    rows = RunReader(store)
    return StepContent(rows, Traces(rows))


def stored(store, name):
    """Store a recording; return its tenant and the name, trace and id of each span by start."""
    document = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    tenant = f"{name} {uuid.uuid4().hex}"
    request = ParseDict(document["spans"], ExportTraceServiceRequest())
    flatten_deep_values(request)  # as it is done on arrival
    insert(store, Kind.SPANS, tenant, request.SerializeToString())
    if "logs" in document:
        logs = ParseDict(document["logs"], ExportLogsServiceRequest())
        flatten_deep_values(logs)
        insert(store, Kind.LOGS, tenant, logs.SerializeToString())
    spans = [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    spans.sort(key=lambda span: span.start_time_unix_nano)
    return tenant, [(span.name, span.trace_id.hex(), span.span_id.hex()) for span in spans]


def insert(store, kind, tenant, data):
    """Store one OTLP request."""
    body = QueuedBody(
        id=1,
        kind=kind,
        tenant=tenant,
        first_sequence_number=1,
        records=1,
        received_unix_nano=RECEIVED,
        data=data,
    )
    store.insert(kind, [body], token=uuid.uuid4().hex)


def contents(store, name):
    """Return the content of each span of a recording, with its span's name, by start."""
    tenant, spans = stored(store, name)
    query = reader(store)
    return [(span, query.content(tenant, trace, span_id)) for span, trace, span_id in spans]
