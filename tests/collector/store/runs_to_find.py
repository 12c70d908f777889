"""Small runs, as events and as third-party spans, for tests of searches and statistics."""

from datetime import UTC, datetime, timedelta

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

START = datetime(2026, 1, 23, 10, tzinfo=UTC)
NOW = int(datetime(2026, 1, 23, 18, tzinfo=UTC).timestamp()) * 10**9


def at(seconds):
    """Return the moment so many seconds after the tests' start time."""
    return (START + timedelta(seconds=seconds)).isoformat()


def run(trace_id, *, begin=0, took=2, agent="parsing_agent", status="success", **more):
    """Return the events of a pipeline with one agent; other fields are set on all of them."""
    prompt, output = more.pop("prompt", "hello"), more.pop("output", "done")
    confidence, cost = more.pop("confidence", 0.9), more.pop("cost", 0.001)
    common = {"trace_id": trace_id, "request_id": "r", "event_version": "1.0.0"}
    pipeline = {**common, "pipeline_type": more.pop("pipeline", "booking")}
    failed = status == "failed"
    ended = {"execution_time_ms": took * 1000, "output_summary": output}
    if failed:
        ended = {"execution_time_before_failure_ms": took * 1000, "error_message": output}
        ended |= {"error_type": "Timeout", "error_category": "transient"}
    events = [
        {**pipeline, "event_type": "agent.pipeline.started", "user_prompt": prompt},
        {**common, "event_type": "agent.execution.started", "agent_name": agent},
        {**common, **ended, "agent_name": agent, "confidence": confidence}
        | {"event_type": f"agent.execution.{'failed' if failed else 'completed'}"}
        | {"llm_cost_usd": cost, "llm_tokens_used": 100},
        {**pipeline, "event_type": "agent.pipeline.completed", "status": status},
    ]
    moments = (begin, begin, begin + took, begin + took)
    return [
        {"event_id": f"{trace_id}-{number}", "timestamp": at(seconds), **event, **more}
        for number, (event, seconds) in enumerate(zip(events, moments, strict=True))
    ]


def span(number, *, parent=None, name="work", error="", begin=0, took=1, **attributes):
    """Return a span as plain data; every other key is an attribute."""
    place = {"#id": number, "#parent": parent, "#name": name, "#error": error}
    return {**place, "#begin": begin, "#took": took, **attributes}


def spans_request(*spans, trace=b"\xab" * 16):
    """Return an OTLP request with these spans."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for each in spans:
        start = int(START.timestamp() + each["#begin"]) * 10**9
        made = scope.spans.add(
            trace_id=trace,
            span_id=each["#id"].to_bytes(8, "big"),
            parent_span_id=each["#parent"].to_bytes(8, "big") if each["#parent"] else b"",
            name=each["#name"],
            start_time_unix_nano=start,
            end_time_unix_nano=start + each["#took"] * 10**9,
        )
        if each["#error"]:
            made.status.code, made.status.message = 2, each["#error"]
        for key, value in each.items():
            if not key.startswith("#"):
                said = made.attributes.add(key=key).value
                if isinstance(value, int):
                    said.int_value = value
                else:
                    said.string_value = value
    return request.SerializeToString()
