"""Slow, silent and too many clients on real sockets: ended in time, while others are served."""

import asyncio
import contextlib
import resource
import socket
import threading
from collections import Counter

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response

from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel_collector.connections import BoundedProtocol, ConnectionLimits, allow_open_files
from tracereel_collector.serving import listen

LARGE = 30_000_000


class Server:
    """uvicorn with our protocol in a thread, on a port of its own."""

    def __init__(self, **limits):
        self.ended = Counter()
        self.holding = threading.Event()
        self.release = None
        app = FastAPI()
        app.state.connection_limits = ConnectionLimits(on_refused=self._note, **limits)

        @app.get("/")
        async def root() -> str:
            return "here"

        @app.get("/large")
        async def large() -> Response:
            return Response(bytes(LARGE))

        @app.get("/held")
        async def held() -> str:
            self.release = asyncio.Event()
            self.loop = asyncio.get_running_loop()
            self.holding.set()
            await self.release.wait()
            return "released"

        @app.post("/refused")
        async def refused(_: Request) -> Response:
            return Response("no", status_code=401)

        self.listening = listen("127.0.0.1", 0)
        self.address = self.listening.getsockname()
        self.server = uvicorn.Server(
            uvicorn.Config(app, http=BoundedProtocol, log_config=None, lifespan="off")
        )
        self._thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True
        )
        self._thread.start()
        wait_until(lambda: self.server.started)

    def _note(self, reason):
        self.ended[reason] += 1

    def connect(self):
        connection = socket.create_connection(self.address, timeout=20)
        return contextlib.closing(connection)

    @property
    def open(self):
        return len(self.server.server_state.connections)

    def get(self, path="/"):
        return http("GET", f"http://127.0.0.1:{self.address[1]}{path}")

    def stop(self):
        self.server.should_exit = True
        self._thread.join()
        self.listening.close()


@pytest.fixture
def serve():
    made = []

    def make(**limits):
        made.append(Server(**limits))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def is_closed(connection):
    """Send one more byte and look whether anybody is still there."""
    connection.settimeout(0.05)
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_headers_that_trickle_are_answered_408_and_closed(serve):
    server = serve(header_seconds=0.5)
    with server.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        answer = b""
        slow.settimeout(0.1)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                answer = slow.recv(1000)
                break
            slow.sendall(b"X")
        assert answer.startswith(b"HTTP/1.1 408")
    assert server.ended == {"header_time": 1}
    assert server.get().status == 200


def test_a_connection_that_says_nothing_is_closed(serve):
    server = serve(header_seconds=0.3)
    with server.connect() as silent:
        assert silent.recv(1000).startswith(b"HTTP/1.1 408")
        assert silent.recv(1000) == b""


def test_a_body_that_goes_on_after_the_answer_is_cut_off(serve):
    server = serve(linger_seconds=0.4)
    with server.connect() as endless:
        endless.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        assert endless.recv(1000).startswith(b"HTTP/1.1 401")
        wait_until(lambda: is_closed(endless))
    assert server.ended == {"body_lingers": 1}


def test_a_body_that_ends_after_the_answer_leaves_the_connection_usable(serve):
    server = serve(linger_seconds=0.4)
    with server.connect() as late:
        late.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
        assert late.recv(1000).startswith(b"HTTP/1.1 401")
        late.sendall(b"yGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert late.recv(1000).startswith(b"HTTP/1.1 200")
        late.settimeout(0.6)  # longer than the linger: it must have been called off
        with pytest.raises(TimeoutError):
            late.recv(1)
        late.settimeout(20)
        late.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert late.recv(1000).startswith(b"HTTP/1.1 200")
    assert server.ended == {}


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_who_sends_all_of_a_large_body_before_listening_gets_the_answer(serve, connection):
    server = serve()
    with server.connect() as eager:
        head = f"POST /refused HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n"
        eager.sendall(head.encode() + b"Content-Length: 30000000\r\n\r\n")
        for _ in range(30):
            eager.sendall(bytes(1_000_000))
        assert eager.recv(1000).startswith(b"HTTP/1.1 401")
        if connection == "close":
            assert eager.recv(1000) == b""
    wait_until(lambda: server.open == 0)
    assert server.ended == {}


def test_a_client_that_does_not_read_its_answer_is_cut_off(serve):
    server = serve(write_seconds=0.3)
    with server.connect() as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: server.ended["reads_nothing"] == 1)
    wait_until(lambda: server.open == 0)


def test_a_client_that_reads_slowly_gets_everything(serve):
    server = serve(write_seconds=1.0)
    with server.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        received, pause = 0, threading.Event()
        while received < LARGE:
            part = slow.recv(1 << 20)
            assert part, f"cut off after {received:,} of {LARGE:,} bytes: {server.ended}"
            received += len(part)
            pause.wait(0.002)  # this is the slowness that is tested
    assert received >= LARGE
    assert server.ended == {}


def test_a_thousand_silent_connections_keep_nobody_out(serve):
    """At the bound the one that waited longest gives way; requests under way are never ended."""
    server = serve(max_connections=50)
    with contextlib.ExitStack() as many:
        held = many.enter_context(server.connect())
        held.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.holding.wait(20)
        for _ in range(1000):
            many.enter_context(server.connect())
        wait_until(lambda: server.get().status == 200)
        wait_until(lambda: server.ended["gave_way"] + server.ended["too_many"] >= 940)
        assert server.ended["gave_way"] > 0
        assert server.open <= 51
        server.loop.call_soon_threadsafe(server.release.set)
        assert b"released" in held.recv(1000)


def test_when_every_connection_is_busy_a_new_one_is_told_to_come_back(serve):
    server = serve(max_connections=1)
    with server.connect() as held:
        held.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.holding.wait(20)
        with server.connect() as late:
            answer = late.recv(1000)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        server.loop.call_soon_threadsafe(server.release.set)
        assert b"released" in held.recv(1000)
    assert server.ended == {"too_many": 1}


def test_more_files_may_be_open_than_there_may_be_connections():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        allow_open_files(1000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(1100, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
