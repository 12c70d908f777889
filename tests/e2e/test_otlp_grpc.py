"""OTLP over gRPC: the same keys, limits and responses as over HTTP, in gRPC's terms."""

import contextlib
import socket
import threading

import grpc
import psutil
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support import http2
from tests.support.collector import CollectorProcess, free_port, http
from tests.support.waiting import wait_until

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
SECRET = "the-key-of-tenant-acme"
KEY = (("x-api-key", SECRET),)


def request_with(*spans):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, fields in enumerate(spans, 1):
        scope.spans.add(**{"trace_id": b"\1" * 16, "span_id": bytes([number]) * 8, **fields})
    return request.SerializeToString()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Return a collector with a key, small bodies, and a queue that is full after one body."""
    collector = CollectorProcess(
        tmp_path_factory.mktemp("guarded"),
        grpc_port=free_port(),
        environ={
            "TRACEREEL_API_KEYS": f"acme:{SECRET}",
            "TRACEREEL_MAX_BODY_BYTES": "1000000",
            "TRACEREEL_MAX_PENDING_BYTES": "500",
            "TRACEREEL_HEADER_SECONDS": "1",
        },
    ).start()
    yield collector
    collector.stop()


@pytest.fixture
def call(guarded):
    """Call a method with raw bytes; return the response bytes or the error."""
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


@pytest.mark.parametrize("metadata", [KEY, (("authorization", f"Bearer {SECRET}"),)])
def test_either_way_to_send_the_key_is_taken(call, metadata):
    assert call(TRACES, b"", metadata) == b""


def test_invalid_otlp_is_a_permanent_invalid_argument(call):
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
def test_oversized_decompressed_message_is_a_permanent_resource_exhausted(call, compression):
    error = call(TRACES, b"\0" * 2_000_000, compression=compression)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not status_of(error).details


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_read(call, compression):
    answer = call(
        TRACES, request_with({"name": "c" * 300, "trace_id": b""}), compression=compression
    )

    assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 1


def test_broken_compression_is_an_invalid_argument(guarded):
    key, encoding = (b"x-api-key", SECRET.encode()), (b"grpc-encoding", b"gzip")
    failed = {"code": "INVALID_ARGUMENT", "route": TRACES}
    before = guarded.metric("tracereel_http_requests_total", **failed)
    with http2.Calls(guarded.grpc_port, TRACES.encode(), key, encoding) as calls:
        stream = calls.begin()
        calls.send(stream, http2.message(b"no gzip", is_packed=True), is_last=True)
        calls.wait(stream)

    assert guarded.metric("tracereel_http_requests_total", **failed) == before + 1


def test_the_number_of_a_stream_is_not_taken_from_a_client(call):
    assert call(TRACES, b"", (*KEY, ("tracereel-stream", "99"))) == b""


def test_grpc_calls_that_bypass_the_listener_are_refused(guarded):
    """A local process with a key must not bypass the listener, which enforces the limits."""
    # gRPC listens on IPv6 sockets only, also for IPv4 addresses; nothing else does here.
    (inner,) = {
        each.laddr.port
        for each in psutil.Process(guarded.process.pid).net_connections("tcp6")
        if each.status == psutil.CONN_LISTEN
    }
    with grpc.insecure_channel(f"127.0.0.1:{inner}") as channel, pytest.raises(grpc.RpcError) as no:
        channel.unary_unary(TRACES)(b"", metadata=KEY, timeout=30)

    assert no.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_full_queue_is_resource_exhausted_with_a_retry_delay(call, guarded):
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
        {"Content-Type": "application/x-protobuf", "x-api-key": SECRET},
    )
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) == retry.retry_delay.seconds


def test_a_method_that_is_not_there_is_unimplemented(call):
    assert call("/some.Service/Export", b"").code() is grpc.StatusCode.UNIMPLEMENTED


def test_idle_grpc_call_does_not_block_others(call, guarded):
    """Its call is open without a message; others are served meanwhile."""
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


def test_taken_grpc_port_is_a_startup_error(new_collector, collector):
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
        # A first call, so that the second uses an established connection.
        assert channel.unary_unary(TRACES)(b"", timeout=30) == b""
        call = channel.stream_unary(TRACES).future(slowly(), timeout=30)
        channel.unary_unary(TRACES)(b"", timeout=30)
        stopping.process.terminate()
        release.set()
        assert call.result() == b""
    assert stopping.process.wait(60) == 0


def test_the_clients_own_address_is_what_counts(guarded):
    """The client's address, not that of the listener that passes the connection on."""
    frames = http2.PREFACE + http2.frame(http2.SETTINGS, 0)
    head = http2.call_headers(TRACES.encode(), (b"x-api-key", b"wrong"))
    frames += http2.frame(http2.HEADERS, 1, head, flags=http2.END_HEADERS)
    with socket.create_connection(
        ("127.0.0.1", guarded.grpc_port), timeout=20, source_address=("127.0.0.9", 0)
    ) as connection:
        connection.sendall(frames)
        audit = guarded.data_dir / "audit" / "audit.ndjson"
        wait_until(lambda: b'"peer":"127.0.0.9"' in audit.read_bytes().replace(b": ", b":"))


def test_headers_that_do_not_end_time_out(guarded):
    before = guarded.metric("tracereel_connections_ended_total", reason="header_time")
    frames = http2.PREFACE + http2.frame(http2.SETTINGS, 0)
    frames += http2.frame(http2.HEADERS, 1, http2.call_headers(TRACES.encode()))
    with socket.create_connection(("127.0.0.1", guarded.grpc_port), timeout=20) as connection:
        connection.sendall(frames)
        with contextlib.suppress(OSError):
            while connection.recv(1000):
                pass
    assert guarded.metric("tracereel_connections_ended_total", reason="header_time") == before + 1


def test_headers_over_a_limit_end_the_connection_and_no_other(call, guarded):
    before = guarded.metric("tracereel_connections_ended_total", reason="header_size")
    frames = http2.PREFACE + http2.frame(http2.SETTINGS, 0)
    frames += http2.frame(http2.HEADERS, 1, http2.header(b"a", b"") * 2_000, flags=4)
    with socket.create_connection(("127.0.0.1", guarded.grpc_port), timeout=20) as connection:
        connection.sendall(frames)
        with contextlib.suppress(OSError):
            while connection.recv(1000):
                pass
    assert guarded.metric("tracereel_connections_ended_total", reason="header_size") == before + 1
    assert call(TRACES, b"") == b""
