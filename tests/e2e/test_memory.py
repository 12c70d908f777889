"""Memory limits, with and without a valid key: no process exceeds the documented ceiling.

With `TRACEREEL_LONG_FORMS=1` the limits are the collector's defaults; otherwise smaller ones.
"""

import contextlib
import gzip
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import grpc
import pytest
import zstandard

from tests.support import http2
from tests.support.collector import CollectorProcess, free_port, http
from tests.support.interrupted import Interrupted
from tests.support.memory import MIB, peaks_of, resident
from tests.support.small_objects import OTLP_BODIES, nested_values
from tests.support.waiting import wait_until

SECRET = "acme-secret-of-this-test"
KEY = {"x-api-key": SECRET}
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
AT_ONCE = 6
LONG = os.environ.get("TRACEREEL_LONG_FORMS") == "1"
INFLIGHT = (256 if LONG else 64) * MIB
OBJECTS = 1_000_000 if LONG else 200_000
BYTES = (64 if LONG else 16) * MIB
REFUSED = 64 * MIB
"""Memory that senders without a key may add; see docs/security.md."""
CEILING = 2 * INFLIGHT + (640 if LONG else 384) * MIB
"""Memory that a process may use whatever senders with keys send; see docs/security.md."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = CollectorProcess(
        tmp_path_factory.mktemp("memory"),
        preloaded=False,
        arguments=("--workers", "1"),
        grpc_port=free_port(),
        environ={
            "TRACEREEL_API_KEYS": f"acme:{SECRET}",
            "TRACEREEL_MAX_INFLIGHT_BYTES": str(INFLIGHT),
            "TRACEREEL_MAX_BODY_OBJECTS": str(OBJECTS),
            "TRACEREEL_MAX_BODY_BYTES": str(BYTES),
        },
    ).start()
    yield running
    running.stop()


def connect(collector, port=None):
    url = urlsplit(collector.url)
    connection = socket.create_connection((url.hostname, port or url.port), timeout=20)
    return contextlib.closing(connection)


def push(connection, data, *, times=1):
    """Send until the peer stops reading; read and discard its responses."""

    def read():
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    with contextlib.suppress(OSError):
        for _ in range(times):
            connection.sendall(data)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    reading.join(20)


HEAD = b"POST /v1/events HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(bytes(60_000_000), 1)


def trailers(collector):
    with connect(collector) as connection:
        push(connection, CHUNKED + b"0\r\n")
    with connect(collector) as connection:
        push(connection, CHUNKED + b"0\r\n" + b"a:b\r\n" * 4_000_000)


def one_trailer(collector):
    with connect(collector) as connection:
        push(connection, CHUNKED + b"0\r\na: " + b"x" * 20_000_000)


def chunk_extensions(collector):
    with connect(collector) as connection:
        push(connection, CHUNKED + b"1;a=" + b"x" * 20_000_000)


def pipelined(collector):
    with connect(collector) as connection:
        push(connection, b"GET /healthz HTTP/1.1\r\n\r\n" * 10_000, times=20)


def pipelined_unread(collector):
    with contextlib.ExitStack() as many:
        for _ in range(20):
            connection = many.enter_context(connect(collector))
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n" * 100_000)


def tiny_headers(collector):
    with contextlib.ExitStack() as many:
        for _ in range(100):
            connection = many.enter_context(connect(collector))
            with contextlib.suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 15_000)


def half_open(collector):
    with contextlib.ExitStack() as many:
        opened = [many.enter_context(connect(collector)) for _ in range(100)]
        for connection in opened:
            connection.settimeout(0.5)
            with contextlib.suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\nA: " + b"x" * 65_000)


def large_bodies(collector):
    with connect(collector) as connection:
        push(connection, HEAD + b"Content-Length: 60000000\r\n\r\n" + bytes(60_000_000))


def packed_bodies(collector):
    answer = http("POST", f"{collector.url}/v1/events", PACKED, {"Content-Encoding": "gzip"})
    assert answer.status == 401


def upgrades(collector):
    head = b"GET /v1/tail HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    with connect(collector) as connection:
        push(connection, head + bytes(20_000_000))


BEFORE = [
    trailers,
    one_trailer,
    chunk_extensions,
    pipelined,
    pipelined_unread,
    tiny_headers,
    half_open,
    large_bodies,
    packed_bodies,
    upgrades,
]


def grpc_push(collector, frames):
    with connect(collector, collector.grpc_port) as connection:
        push(connection, http2.PREFACE + http2.frame(http2.SETTINGS, 0) + b"".join(frames))


def grpc_continuations(collector):
    tiny = http2.frame(http2.CONTINUATION, 1, http2.header(b"a", b"") * 3_000)
    head = http2.frame(http2.HEADERS, 1, http2.call_headers(TRACES.encode()))
    grpc_push(collector, [head, *[tiny] * 3_000])


def grpc_long_header(collector):
    head = http2.call_headers(TRACES.encode()) + b"\x00\x01a\x7f" + b"\xff\xff\xff\x7f"
    more = http2.frame(http2.CONTINUATION, 1, b"x" * 16_000)
    grpc_push(collector, [http2.frame(http2.HEADERS, 1, head), *[more] * 1_500])


def grpc_streams(collector):
    head = http2.call_headers(TRACES.encode())
    part = http2.message(bytes(30_000_000))[:10_000]
    frames = []
    for stream in range(1, 4_001, 2):
        frames.append(http2.frame(http2.HEADERS, stream, head, flags=http2.END_HEADERS))
        frames.append(http2.frame(http2.DATA, stream, part))
    grpc_push(collector, frames)


def grpc_resets(collector):
    head = http2.call_headers(TRACES.encode())
    grpc_push(
        collector,
        [
            http2.frame(http2.HEADERS, stream, head, flags=http2.END_HEADERS)
            + http2.frame(http2.RST_STREAM, stream, b"\0\0\0\x08")
            for stream in range(1, 40_001, 2)
        ],
    )


def grpc_tiny_headers(collector):
    tiny = http2.header(b"a", b"")
    head = http2.call_headers(TRACES.encode()) + tiny * 3_500
    frames = []
    for stream in range(1, 1_001, 2):
        frames.append(http2.frame(http2.HEADERS, stream, head))
        frames.append(http2.frame(http2.CONTINUATION, stream, tiny * 4_000, flags=4))
    grpc_push(collector, frames)


def grpc_many_headers(collector):
    head = http2.call_headers(TRACES.encode()) + http2.header(b"a", b"") * 90
    grpc_push(
        collector,
        [
            http2.frame(http2.HEADERS, stream, head, flags=http2.END_HEADERS)
            for stream in range(1, 10_001, 2)
        ],
    )


BEFORE += [grpc_continuations, grpc_long_header, grpc_streams, grpc_resets]
BEFORE += [grpc_tiny_headers, grpc_many_headers]


def several(act, count=AT_ONCE):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: act(), range(count)))


def is_alive(collector):
    assert http("GET", f"{collector.url}/healthz").status == 200
    assert http("GET", f"{collector.url}/readyz").json()["store"]["restarts"] == 0


@pytest.mark.parametrize("attack", BEFORE, ids=lambda each: each.__name__)
def test_senders_without_a_key_add_little_memory(guarded, attack):
    pid = guarded.process.pid
    before = resident(pid)
    with peaks_of(pid) as (peak,):
        several(lambda: attack(guarded))

    assert peak.bytes - before < REFUSED
    is_alive(guarded)


def otlp_body(name, count):
    signal, body = OTLP_BODIES[name](count)
    return f"/v1/{signal.name}", "application/x-protobuf", body


def full(unit, *, begin=b"", end=b"", size=None):
    """Return as many units as fit between a beginning and an end."""
    size = BYTES if size is None else size
    count = (size - len(begin) - len(end)) // len(unit)
    return begin + unit * count + end


def event_with(value):
    event = {"event_id": "e", "event_type": "agent.execution.started", "trace_id": "t", "x": 0}
    return json.dumps(event).encode().replace(b'"x": 0', b'"x": ' + value)


def line_of(unit):
    """Return an event of the maximum size."""
    return event_with(full(unit, begin=b"[", end=b"{}]", size=4 * MIB - 200)) + b"\n"


def in_spans(unit, **options):
    begin = b'{"resourceSpans":[{"scopeSpans":[{"spans":['
    return full(unit, begin=begin, end=b"{}]}]}]}", **options)


def in_array(unit, **options):
    return full(unit, begin=b"[", end=b"{}]", **options)


PROTOBUF, JSON, NDJSON = "application/x-protobuf", "application/json", "application/x-ndjson"
ATTRIBUTE = b'{"attributes":[' + b'{"key":"k","value":{"intValue":1}},' * 500 + b"{}]},"
CASES = {
    # As many as the object limit allows: all of them are created and traversed.
    "empty spans": lambda: otlp_body("spans", OBJECTS - 5),
    "empty log records": lambda: otlp_body("log records", OBJECTS - 5),
    "empty points": lambda: otlp_body("exponential points", OBJECTS - 6),
    "empty links": lambda: otlp_body("links", OBJECTS - 6),
    "scopes": lambda: otlp_body("scopes", OBJECTS - 5),
    "attributes": lambda: otlp_body("attributes with a value", OBJECTS // 2 - 5),
    "JSON spans": lambda: ("/v1/traces", JSON, in_spans(b"{},", size=3 * OBJECTS // 2)),
    "JSON attributes": lambda: ("/v1/traces", JSON, in_spans(ATTRIBUTE, size=8 * OBJECTS)),
    "event lines": lambda: ("/v1/events", NDJSON, line_of(b"{},") * (BYTES // (4 * MIB))),
    "keyed lines": lambda: ("/v1/events", NDJSON, line_of(b'{"k":0},') * (BYTES // (4 * MIB))),
    "tiny lines": lambda: ("/v1/events", NDJSON, b"{}\n" * 99_000),
    "array of events": lambda: ("/v1/events", JSON, in_array(b"1,", size=2 * OBJECTS - 9)),
    # As many as the byte limit allows.
    "all spans": lambda: otlp_body("spans", BYTES // 2 - 20),
    "all values": lambda: otlp_body("array values", BYTES // 2 - 40),
    "nested values": lambda: ("/v1/traces", PROTOBUF, nested_values(BYTES // 12)[1]),
    "all JSON spans": lambda: ("/v1/traces", JSON, in_spans(b"{},")),
    "all JSON numbers": lambda: ("/v1/logs", JSON, in_array(b"1,")),
    "nested JSON": lambda: ("/v1/traces", JSON, full(b"[")),
    "nested objects": lambda: ("/v1/traces", JSON, full(b'{"a":')),
    "all events": lambda: ("/v1/events", JSON, in_array(b"{},")),
    "one event": lambda: ("/v1/events", JSON, full(b"{},", begin=b'{"a":[', end=b"{}]}\n{}")),
    "all lines": lambda: ("/v1/events", NDJSON, full(b"{}\n")),
    "heartbeats": lambda: ("/v1/heartbeats", JSON, in_array(b"{},", size=MIB)),
    "scores": lambda: ("/v1/scores", JSON, in_array(b"{},", size=4 * MIB)),
    "a document to show": lambda: ("/api/transform", JSON, in_spans(b"{},")),
    "parameters": lambda: (
        "/v1/sql",
        JSON,
        full(b"1,", begin=b'{"query":"x","parameters":{"a":[', end=b"1]}}"),
    ),
    "a long statement": lambda: ("/v1/sql", "text/plain", full(b"1,", begin=b"SELECT ", end=b"1")),
}


def sender(collector, name, packed):
    path, content_type, body = CASES[name]()
    headers = {**KEY, "Content-Type": content_type}
    if packed == "gRPC":
        call = path.removeprefix("/v1/")
        service = {"traces": "trace", "logs": "logs", "metrics": "metrics"}[call]
        method = f"/opentelemetry.proto.collector.{service}.v1.{service.capitalize()}Service/Export"

        def send():
            options = [("grpc.max_send_message_length", -1)]
            with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}", options) as channel:
                try:
                    channel.unary_unary(method)(
                        body,
                        metadata=tuple(KEY.items()),
                        timeout=120,
                        compression=grpc.Compression.Gzip,
                    )
                except grpc.RpcError as error:
                    return error.code().name
                return "OK"

        return send
    if packed:
        headers["Content-Encoding"] = packed
        body = gzip.compress(body, 1) if packed == "gzip" else zstandard.compress(body)
    return lambda: http("POST", f"{collector.url}{path}", body, headers, timeout=120).status


PACKINGS = ["", "gzip", "zstd"]
SENT = [(name, PACKINGS[number % 3]) for number, name in enumerate(CASES)]
SENT += [(name, "gRPC") for name in ("empty spans", "all spans")]
ANSWERS = {200, 400, 403, 408, 413, 429, "OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(("name", "packed"), SENT)
def test_bodies_of_very_many_objects_stay_below_the_ceiling(guarded, name, packed):
    send = sender(guarded, name, packed)
    pid = guarded.process.pid
    with peaks_of(pid) as (peak,):
        answers = several(send)

    assert set(answers) <= ANSWERS
    assert peak.bytes < CEILING
    is_alive(guarded)


def test_different_bodies_at_once_stay_below_the_ceiling(guarded):
    """Requests served in between show that others do not wait for all of them."""
    senders = [sender(guarded, name, "") for name in list(CASES)[:12]]
    pid = guarded.process.pid
    with peaks_of(pid) as (peak,), ThreadPoolExecutor(len(senders)) as pool:
        answers = [pool.submit(send) for send in senders]
        wait_until(lambda: all(each.done() for each in answers), timeout=240)

    assert {each.result() for each in answers} <= ANSWERS
    assert peak.bytes < CEILING
    is_alive(guarded)


GIVEN_UP = [
    Interrupted.grpc_while_it_is_checked,
    Interrupted.grpc_right_after_the_message,
    Interrupted.grpc_in_the_middle,
    Interrupted.grpc_stalled,
    Interrupted.grpc_in_tiny_frames,
    Interrupted.grpc_packed_at_once,
    Interrupted.http_while_it_is_checked,
    Interrupted.http_in_the_middle,
    Interrupted.http_packed,
]


@pytest.fixture(scope="module")
def interrupted(guarded):
    return Interrupted(guarded, SECRET, count=OBJECTS * 9 // 10, size=BYTES * 9 // 10)


@pytest.mark.parametrize("act", GIVEN_UP, ids=lambda each: each.__name__)
def test_senders_that_give_up_stay_below_the_ceiling(guarded, interrupted, act):
    """Abandoned bodies are counted while they are held, and held only while processed."""
    last = sender(guarded, "empty spans", "")
    pid = guarded.process.pid
    with peaks_of(pid) as (peak,):
        several(lambda: act(interrupted))
        wait_until(lambda: last() == 200, timeout=120)  # after the pending checks

    assert peak.bytes < CEILING
    is_alive(guarded)
