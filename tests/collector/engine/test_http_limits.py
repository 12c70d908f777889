"""HTTP server limits: keep-alive, invalid bytes, too many connections."""

import contextlib
import dataclasses
import socket
import threading

import pytest

from tests.collector.engine.conftest import Http, connect_to
from tests.support.waiting import wait_until
from tracereel_collector.engine import EngineSettings, Supervisor


def raw(engine: Supervisor, data: bytes, *, answers: int = 1) -> bytes:
    with socket.create_connection((engine.host, engine.port), timeout=10) as connection:
        connection.sendall(data)
        got = b""
        while got.count(b"HTTP/1.1 ") < answers or not got.endswith(b"\n"):
            piece = connection.recv(65536)
            if not piece:
                break
            got += piece
        return got


def test_pipelined_requests_on_one_connection(engine: Supervisor) -> None:
    one = b"POST / HTTP/1.1\r\nX-ClickHouse-Key: %b\r\nContent-Length: 8\r\n\r\nSELECT 7"
    got = raw(engine, (one % engine.secret.encode()) * 3, answers=3)
    assert got.count(b"\r\n\r\n7\n") == 3


def test_expect_100_continue(engine: Supervisor) -> None:
    head = b"POST / HTTP/1.1\r\nX-ClickHouse-Key: %b\r\nExpect: 100-continue\r\n"
    head += b"Content-Length: 8\r\n\r\n"
    got = raw(engine, head % engine.secret.encode() + b"SELECT 7", answers=2)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 not http\r\n\r\n",
        b"GET / SPDY/3\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
    ],
)
def test_invalid_http_closes_only_its_connection(
    engine: Supervisor, http_call: Http, data: bytes
) -> None:
    raw(engine, data)
    assert http_call("POST", "/", "SELECT 1")[2] == b"1\n"


def test_a_body_cut_short_is_not_executed(engine: Supervisor, http_call: Http) -> None:
    http_call("POST", "/", "CREATE TABLE IF NOT EXISTS cut (a Int64) ENGINE = MergeTree ORDER BY a")
    head = b"POST /?query=INSERT+INTO+cut+FORMAT+CSV HTTP/1.1\r\nX-ClickHouse-Key: %b\r\n"
    head += b"Content-Length: 100\r\n\r\n1\n2\n"
    with socket.create_connection((engine.host, engine.port), timeout=10) as connection:
        connection.sendall(head % engine.secret.encode())
    assert http_call("POST", "/", "SELECT count() FROM cut")[2] == b"0\n"


def test_other_methods_are_refused(http_call: Http) -> None:
    status, _, body = http_call("DELETE", "/")
    assert status == 400
    assert b"GET and POST" in body


def test_statements_and_connections_are_bounded(settings: EngineSettings) -> None:
    small = dataclasses.replace(settings, max_queries=1, queue_seconds=0.2, max_connections=4)
    with Supervisor(small) as engine:
        client = connect_to(engine)
        thread = threading.Thread(target=lambda: client.command("SELECT sleep(2)"))
        thread.start()
        key = f"X-ClickHouse-Key: {engine.secret}".encode()
        request = b"POST / HTTP/1.1\r\n%b\r\nConnection: close\r\nContent-Length: 8\r\n\r\nSELECT 1"
        wait_until(lambda: b"\r\nX-ClickHouse-Exception-Code: 202" in raw(engine, request % key))
        # Idle connections are closed for new ones; the busy one stays.
        idle = [socket.create_connection((engine.host, engine.port)) for _ in range(10)]
        assert b"200 OK" in raw(engine, b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n")
        thread.join()
        assert client.command("SELECT 1") == 1
        for connection in idle:
            connection.close()


UNFINISHED = [
    b"POST /ping HTTP/1.1\r\nContent-Length: 1000\r\n\r\nx",
    b"POST /ping HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx",
    b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\nx",
    b"GET /ping HTTP/1.1\r\n",
    b"",
]


@pytest.mark.parametrize("request_bytes", UNFINISHED, ids=range(len(UNFINISHED)))
def test_peers_without_the_secret_do_not_cut_the_store_off(
    engine: Supervisor, http_call: Http, request_bytes: bytes
) -> None:
    """Neither an open connection nor a new one is cut off."""
    query = b"POST / HTTP/1.1\r\nX-ClickHouse-Key: %b\r\nContent-Length: 8\r\n\r\nSELECT 7"
    query %= engine.secret.encode()
    with contextlib.ExitStack() as opened:

        def connect() -> socket.socket:
            made = socket.create_connection((engine.host, engine.port), timeout=10)
            return opened.enter_context(made)

        client = opened.enter_context(contextlib.closing(connect_to(engine)))
        kept = connect()
        kept.sendall(query)
        assert b"200 OK" in kept.recv(65536)
        for each in [connect() for _ in range(200)]:
            with contextlib.suppress(OSError):  # some were closed already
                each.sendall(request_bytes)

        for _ in range(20):
            kept.sendall(query)
            assert b"200 OK" in kept.recv(65536)
            assert http_call("POST", "/", "SELECT 1")[2] == b"1\n"
            assert client.command("SELECT 1") == 1


def test_bodies_without_the_secret_are_not_read(engine: Supervisor) -> None:
    for target in (b"/ping", b"/health", b"/"):
        with socket.create_connection((engine.host, engine.port), timeout=10) as connection:
            head = b"POST %b HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99\r\n\r\n"
            connection.sendall(head % target)
            got = b"".join(iter(lambda c=connection: c.recv(65536), b""))
        assert got.startswith(b"HTTP/1.1 200" if target == b"/ping" else b"HTTP/1.1 401")
        assert got.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close" in got


def test_a_slow_request_head_times_out(settings: EngineSettings) -> None:
    with (
        Supervisor(dataclasses.replace(settings, head_seconds=0.5)) as engine,
        socket.create_connection((engine.host, engine.port)) as slow,
    ):
        slow.settimeout(0.05)

        def ended() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(ended)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /ping HTTP/1.1\r\n" + b"a:\r\n" * 400_000,
        b"GET /ping?" + b"a=&" * 400_000 + b" HTTP/1.1\r\n",
    ],
    ids=["headers", "parameters"],
)
def test_heads_of_very_many_parts_are_refused(
    engine: Supervisor, http_call: Http, head: bytes
) -> None:
    assert raw(engine, head + b"\r\n") == b""
    assert http_call("POST", "/", "SELECT 1")[2] == b"1\n"
