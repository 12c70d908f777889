"""OTLP over gRPC: the keys, limits and answers of HTTP, as gRPC says them."""

import threading

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.collector import CollectorProcess, free_port, http

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
KEY = (("x-api-key", "secret"),)


def request_with(*spans):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, fields in enumerate(spans, 1):
        scope.spans.add(**{"trace_id": b"\1" * 16, "span_id": bytes([number]) * 8, **fields})
    return request.SerializeToString()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A collector with a key, small bodies, and a queue that is full from the first body on."""
    collector = CollectorProcess(
        tmp_path_factory.mktemp("guarded"),
        grpc_port=free_port(),
        environ={
            "TRACEREEL_API_KEYS": "acme:secret",
            "TRACEREEL_MAX_BODY_BYTES": "1000000",
            "TRACEREEL_MAX_PENDING_BYTES": "500",
        },
    ).start()
    yield collector
    collector.stop()


@pytest.fixture
def call(guarded):
    """Calls a method with raw bytes; the answer's bytes, or the error."""
    with grpc.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:

        def make(method, data, metadata=KEY, **options):
            try:
                return channel.unary_unary(method)(data, metadata=metadata, timeout=30, **options)
            except grpc.RpcError as error:
                return error

        yield make


def status_of(error):
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    return Status.FromString(details)


@pytest.mark.parametrize(
    "metadata", [(), (("x-api-key", "wrong"),), (("authorization", "Bearer wrong"),)]
)
def test_a_call_without_a_key_is_unauthenticated(call, metadata):
    error = call(TRACES, request_with({"name": "a"}), metadata)

    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert status_of(error).code == 16


@pytest.mark.parametrize("metadata", [KEY, (("authorization", "Bearer secret"),)])
def test_either_way_to_send_the_key_is_taken(call, metadata):
    assert call(TRACES, b"", metadata) == b""


def test_what_is_not_otlp_is_an_invalid_argument_and_not_worth_another_try(call):
    error = call(LOGS, b"\xff\xff")

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ExportLogsServiceRequest" in error.details()
    assert not status_of(error).details


def test_a_span_without_ids_is_a_partial_success(call):
    answer = call(TRACES, request_with({"name": "b", "trace_id": b""}))

    said = ExportTraceServiceResponse.FromString(answer).partial_success
    assert said.rejected_spans == 1
    assert "trace_id: expected 16 bytes" in said.error_message


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_what_is_too_large_once_unpacked_is_exhausted_without_a_time_to_try_again(
    call, compression
):
    error = call(TRACES, b"\0" * 2_000_000, compression=compression)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(error.trailing_metadata())


def test_compressed_messages_are_read(call):
    answer = call(TRACES, request_with(), compression=grpc.Compression.Gzip)

    assert answer == b""


def test_a_full_queue_is_exhausted_and_says_when_to_try_again(call, guarded):
    large = request_with({"name": "x" * 1_000})

    error = call(TRACES, large)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    (detail,) = status_of(error).details
    retry = RetryInfo()
    assert detail.Unpack(retry)
    assert retry.retry_delay.seconds >= 1
    answer = http(
        "POST",
        f"{guarded.url}/v1/traces",
        large,
        {"Content-Type": "application/x-protobuf", "x-api-key": "secret"},
    )
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) == retry.retry_delay.seconds


def test_a_method_that_is_not_there_is_unimplemented(call):
    assert call("/some.Service/Export", b"").code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_client_that_sends_nothing_keeps_nobody_waiting(call, guarded):
    """It has a call open and its message never comes; others are served meanwhile."""
    release = threading.Event()

    def silent():
        release.wait(30)
        yield b""

    with grpc.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:
        waiting = channel.stream_unary(TRACES).future(silent(), metadata=KEY, timeout=30)
        assert call(TRACES, b"") == b""
        assert not waiting.done()
        release.set()
        assert waiting.result() == b""


def test_calls_are_counted_by_method_and_code(call, guarded):
    call(LOGS, ExportLogsServiceRequest().SerializeToString())

    labels = {"code": "OK", "route": LOGS}
    assert guarded.metric("tracereel_http_requests_total", **labels) >= 1


def test_a_taken_port_is_said_at_the_start(new_collector, collector):
    second = new_collector(grpc_port=collector.grpc_port).start(wait=False)

    assert second.process.wait(60) == 2
    assert any(
        f":{collector.grpc_port}: Address already in use" in line and "--grpc-port" in line
        for line in second.output
    )


def test_a_stop_lets_a_call_under_way_finish(new_collector):
    stopping = new_collector(grpc_port=free_port()).start()
    release = threading.Event()

    def slowly():
        release.wait(30)
        yield request_with({"name": "late"})

    with grpc.insecure_channel(f"127.0.0.1:{stopping.grpc_port}") as channel:
        # A first call, so that the second is on a connection the server knows.
        assert channel.unary_unary(TRACES)(b"", timeout=30) == b""
        call = channel.stream_unary(TRACES).future(slowly(), timeout=30)
        channel.unary_unary(TRACES)(b"", timeout=30)
        stopping.process.terminate()
        release.set()
        assert call.result() == b""
    assert stopping.process.wait(60) == 0
