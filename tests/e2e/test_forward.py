"""A collector forwards received data to another OTLP endpoint, however that endpoint behaves."""

import json
import time

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import CollectorProcess, free_port, http
from tests.support.contract import example
from tests.support.jaeger import attribute, new_id, resource, span
from tests.support.otlp_sink import Answers, OtlpSink
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}
OWN_PATH = "x-tracereel-forwarded-by"


def post(collector, name, *, signal="traces", size=0, headers=None):
    """Send one span; return the status and the response time."""
    more = [attribute("padding", stringValue="x" * size)] if size else []
    sent = span(new_id(), new_id(16), name, at=time.time_ns(), attributes=more)
    body = {"resourceSpans": [resource("forwarded", sent)]}
    if signal == "logs":
        record = {"timeUnixNano": "1", "body": {"stringValue": name}}
        body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    url = f"{collector.url}/v1/{signal}"
    return http("POST", url, json.dumps(body).encode(), {**JSON, **(headers or {})}).status


def dropped(collector, reason):
    return collector.metric("tracereel_forward_dropped_total", reason=reason)


@pytest.fixture(scope="module")
def sink():
    with OtlpSink() as running:
        yield running


@pytest.fixture(scope="module")
def forwarding(sink, tmp_path_factory):
    running = CollectorProcess(
        tmp_path_factory.mktemp("forwarding"),
        arguments=("--forward-to", sink.url),
        environ={"TRACEREEL_FORWARD_HEADERS": "authorization=Bearer%20secret-of-jaeger"},
        grpc_port=free_port(),
    ).start()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def well(sink):
    sink.answers = Answers()


def test_everything_received_is_forwarded_with_the_configured_headers(forwarding, sink):
    assert post(forwarding, "over http") == 200
    request = ExportTraceServiceRequest()
    one = request.resource_spans.add().scope_spans.add().spans.add()
    one.trace_id, one.span_id, one.name = b"g" * 16, b"g" * 8, "over grpc"
    with grpc.insecure_channel(f"127.0.0.1:{forwarding.grpc_port}") as channel:
        channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            request_serializer=bytes,
            response_deserializer=bytes,
        )(request.SerializeToString(), timeout=20)
    assert post(forwarding, "a log", signal="logs") == 200

    wait_until(lambda: {"over http", "over grpc"} <= set(sink.names))
    assert sink.headers["authorization"] == "Bearer secret-of-jaeger"
    assert sink.headers["content-type"] == "application/x-protobuf"
    assert {"service.name": "forwarded"} in sink.resources
    counted = "tracereel_forwarded_records_total"
    wait_until(lambda: forwarding.metric(counted, kind="logs") == 1)
    wait_until(lambda: forwarding.metric(counted, kind="spans") >= 2)
    assert "secret-of-jaeger" not in "\n".join(forwarding.output)


def test_spans_of_our_events_are_forwarded_too(forwarding, sink):
    whole = {
        **example("agent.execution.failed"),
        "event_id": new_id(),
        "trace_id": "trc_forwarded",
        "service": "clinic",
        "span_id": "a" * 16,
        "parent_span_id": "b" * 16,
        "otel_trace_id": "c" * 32,
        "span_name": "invoke_agent parsing_agent",
        "span_start_unix_nano": 10**18,
        "span_end_unix_nano": 10**18 + 5,
    }
    begun = {
        **example("agent.execution.started"),
        "event_id": new_id(),
        "trace_id": "trc_forwarded",
    }
    forwarding.post_events([begun, whole])

    wait_until(lambda: "invoke_agent parsing_agent" in sink.names)
    (found,) = [each for each in sink.spans if each.name == "invoke_agent parsing_agent"]
    assert (found.trace_id.hex(), found.span_id.hex()) == ("c" * 32, "a" * 16)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (10**18, 10**18 + 5)
    assert found.parent_span_id.hex() == "b" * 16
    assert found.status.message == "LLMTimeoutError: LLM request timeout after 30s"
    assert sink.attributes(found.name)["gen_ai.agent.name"] == "parsing_agent"
    assert sink.attributes(found.name)["trace_id"] == "trc_forwarded"
    assert {"service.name": "clinic"} in sink.resources


def test_duplicate_body_is_forwarded_once(forwarding, sink):
    twice = span(new_id(), new_id(16), "sent twice", at=time.time_ns())
    body = json.dumps({"resourceSpans": [resource("s", twice)]}).encode()
    for _ in range(2):
        assert http("POST", f"{forwarding.url}/v1/traces", body, JSON).status == 200
    post(forwarding, "after them")

    wait_until(lambda: "after them" in sink.names)
    assert sink.names.count("sent twice") == 1


def test_permanently_refused_spans_are_counted_and_not_retried(forwarding, sink):
    before, requests = dropped(forwarding, "refused"), sink.requests
    sink.answers = Answers(status=400)
    assert post(forwarding, "refused") == 200

    wait_until(lambda: dropped(forwarding, "refused") == before + 1)
    assert sink.requests == requests + 1
    sink.answers = Answers(refused=1)
    assert post(forwarding, "refused in part") == 200
    wait_until(lambda: dropped(forwarding, "partly_refused") == 1)


def test_forwarder_honours_retry_after(forwarding, sink):
    sink.answers = Answers(status=503, headers={"Retry-After": "2"})
    requests = sink.requests
    started = time.monotonic()
    assert post(forwarding, "later") == 200
    wait_until(lambda: sink.requests == requests + 1)
    sink.answers = Answers()

    wait_until(lambda: "later" in sink.names)
    assert time.monotonic() - started >= 2
    assert sink.requests == requests + 2
    assert forwarding.metric("tracereel_forward_retries_total", kind="spans") >= 1


def test_forwarding_loops_are_cut(forwarding, sink):
    post(forwarding, "to learn its name")
    wait_until(lambda: "to learn its name" in sink.names)
    own = sink.headers[OWN_PATH]

    assert post(forwarding, "in a circle", headers={OWN_PATH: f"{own},other"}) == 200
    assert post(forwarding, "from elsewhere", headers={OWN_PATH: "other"}) == 200
    wait_until(lambda: "from elsewhere" in sink.names)
    assert sink.headers[OWN_PATH] == f"other,{own}"
    assert "in a circle" not in sink.names
    assert dropped(forwarding, "loop") == 1


def test_ingest_continues_while_the_forward_target_is_down(new_collector):
    """The forwarding queue is small here: overflowing and expired records are counted."""
    port = free_port()
    collector = new_collector(
        arguments=("--forward-to", f"http://127.0.0.1:{port}"),
        environ={
            "TRACEREEL_FORWARD_QUEUE_BYTES": "40000",
            "TRACEREEL_FORWARD_SECONDS": "0.5",
            "TRACEREEL_FORWARD_AGE_SECONDS": "3",
        },
    ).start()
    answers = [post(collector, f"away {number}", size=10_000) for number in range(8)]
    assert answers == [200] * 8
    assert dropped(collector, "full") >= 4
    assert 0 < collector.metric("tracereel_forward_queue_bytes") <= 40_000

    with OtlpSink(port) as sink:
        sink.answers.hang = True
        assert post(collector, "into a silence") == 200
        wait_until(lambda: dropped(collector, "expired") >= 1)
        wait_until(lambda: collector.metric("tracereel_forward_queue_bytes") == 0)
        sink.answers = Answers()
        assert post(collector, "back again") == 200
        wait_until(lambda: "back again" in sink.names)
    started = time.monotonic()
    assert post(collector, "never sent") == 200
    assert collector.stop() == 0
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("TRACEREEL_FORWARD_TO", "ftp://x", "expected http://host:port"),
        ("TRACEREEL_FORWARD_TO", "http://127.0.0.1:{port}", "is this collector itself"),
    ],
)
def test_invalid_forward_target_is_a_startup_error(new_collector, name, value, printed):
    port = free_port()
    collector = new_collector(port=port, environ={name: value.format(port=port)}).start(wait=False)

    assert collector.process.wait(60) == 2
    wait_until(lambda: printed in "\n".join(collector.output))
