"""The edges of the HTTP server: keep-alive, bad bytes, too many at once."""

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
def test_what_is_not_http_ends_the_connection_and_nothing_else(
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
        # Idle connections give way to new ones; the busy one stays.
        idle = [socket.create_connection((engine.host, engine.port)) for _ in range(10)]
        assert b"200 OK" in raw(engine, b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n")
        thread.join()
        assert client.command("SELECT 1") == 1
        for connection in idle:
            connection.close()
