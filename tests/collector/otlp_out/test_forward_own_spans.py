"""Events that describe a whole span, as they are forwarded."""

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.otlp_out.forward.own_spans import request_of

SPAN = {
    "otel_trace_id": "0af7651916cd43dd8448eb211c80319c",
    "span_id": "b7ad6b7169203331",
    "span_start_unix_nano": 1_000,
    "span_end_unix_nano": 2_000,
}


def test_only_pipelines_have_a_pipeline_status():
    kinds = ("agent.pipeline.completed", "agent.tool.called", "agent.llm.called")
    lines = [
        json.dumps({**SPAN, "event_type": kind, "span_name": kind, "status": "success"}).encode()
        for kind in kinds
    ]
    body, count = request_of(lines)
    assert count == len(kinds)
    spans = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    found = {
        span.name
        for span in spans
        if any(attribute.key == "pipeline.status" for attribute in span.attributes)
    }
    assert found == {"agent.pipeline.completed"}
