"""Slow, idle and too many clients on real sockets: closed in time while others are served."""

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
from tracereel_collector.http.connections import BoundedProtocol, ConnectionLimits, allow_open_files
from tracereel_collector.processes.http_server import listen

LARGE = 30_000_000


class Server:
    """uvicorn with our protocol in a thread, on its own port."""

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

        @app.post("/admitted")
        async def admitted(request: Request) -> Response:
            request.state.caller = "caller"  # as the gate does
            return Response("too much", status_code=413)

        @app.post("/taken")
        async def taken(request: Request) -> Response:
            request.state.caller = "caller"
            return Response(str(len(await request.body())))

        self.listening = listen("127.0.0.1", 0)
        self.address = self.listening.getsockname()
        self.server = uvicorn.Server(
            uvicorn.Config(app, http=BoundedProtocol, ws="none", log_config=None, lifespan="off")
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
    """Send one more byte and check whether the peer is still connected."""
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


def test_idle_connection_is_closed(serve):
    server = serve(header_seconds=0.3)
    with server.connect() as silent:
        assert silent.recv(1000).startswith(b"HTTP/1.1 408")
        assert silent.recv(1000) == b""


def test_body_that_continues_after_the_response_is_cut_off(serve):
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
        late.settimeout(0.6)  # longer than the linger timeout: it must have been cancelled
        with pytest.raises(TimeoutError):
            late.recv(1)
        late.settimeout(20)
        late.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert late.recv(1000).startswith(b"HTTP/1.1 200")
    assert server.ended == {}


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize(("path", "megabytes"), [("/admitted", 30), ("/refused", 3)])
def test_client_that_sends_a_whole_body_before_reading_gets_the_response(
    serve, connection, path, megabytes
):
    """Unlimited with a key; without one, as much as our SDK sends at a time."""
    server = serve()
    with server.connect() as eager:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n"
        eager.sendall(head.encode() + b"Content-Length: %d000000\r\n\r\n" % megabytes)
        for _ in range(megabytes):
            eager.sendall(bytes(1_000_000))
        assert eager.recv(1000).startswith(b"HTTP/1.1 4")
        if connection == "close":
            assert eager.recv(1000) == b""
    wait_until(lambda: server.open == 0)
    assert server.ended == {}


def test_body_without_a_key_is_cut_off_after_a_few_megabytes(serve):
    server = serve()
    with server.connect() as endless:
        endless.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 100_000_000:
                endless.sendall(bytes(1_000_000))
                sent += 1_000_000
    assert sent < 30_000_000  # includes the socket buffers
    assert server.ended == {"refused_body": 1}


def test_endless_refused_bodies_do_not_exhaust_connections(serve):
    server = serve(max_connections=10, refused_seconds=20)
    head = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
    with contextlib.ExitStack() as many:
        for _ in range(10):
            endless = many.enter_context(server.connect())
            endless.sendall(head)
            assert endless.recv(1000).startswith(b"HTTP/1.1 401")
        wait_until(lambda: server.get().status == 200)
    assert server.ended["gave_way"] >= 1


CHUNKED = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("path", [b"/refused", b"/taken"])
@pytest.mark.parametrize(
    "endless",
    [b"0\r\nName: " + b"x" * 400_000, b"0\r\n" + b"a:b\r\n" * 100_000, b"1;x=" + b"x" * 400_000],
    ids=["one trailer", "many trailers", "chunk extension"],
)
def test_trailers_and_chunk_extensions_are_bounded(serve, endless, path):
    server = serve()
    with server.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(CHUNKED % path + endless)
        with contextlib.suppress(OSError):
            answer = b"".join(iter(lambda: connection.recv(1000), b""))
            assert answer.startswith(b"HTTP/1.1 4")  # unless a reset arrived first
    wait_until(lambda: server.ended == {"trailers": 1})


def test_short_trailers_are_dropped_and_the_connection_stays_usable(serve):
    server = serve()
    with server.connect() as connection:
        for _ in range(2):
            request = CHUNKED % b"/taken" + b"3;x=y\r\nabc\r\n0\r\nChecksum: 1\r\n\r\n"
            connection.sendall(request)
            assert connection.recv(1000).endswith(b"\r\n\r\n3")
    assert server.ended == {}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [(b"a:\r\n" * 1000, "header_count"), (b"a: " + b"x" * 70_000 + b"\r\n", "header_size")],
)
@pytest.mark.parametrize("end", [b"", b"\r\n"])
def test_headers_are_bounded_in_number_and_size(serve, headers, reason, end):
    server = serve()
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + headers + end)
        assert connection.recv(1000).startswith(b"HTTP/1.1 431")
    assert server.ended == {reason: 1}


def test_a_few_pipelined_requests_are_answered_in_order(serve):
    server = serve()
    with server.connect() as connection:
        one = b"POST /taken HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
        connection.sendall(b"".join(one % (size, bytes(size)) for size in range(1, 10)))
        got = b""
        while got.count(b"HTTP/1.1 200") < 9 or not got.endswith(b"9"):
            got += connection.recv(1000)
    assert [part[-1:] for part in got.split(b"HTTP/1.1 200")[1:]] == [
        b"%d" % size for size in range(1, 10)
    ]
    assert server.ended == {}


def test_pipelined_requests_are_bounded(serve):
    server = serve()
    with server.connect() as connection:
        connection.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        with contextlib.suppress(OSError):
            assert connection.recv(1000) == b""
    assert server.ended == {"pipelined": 1}
    assert server.holding.wait(20)
    server.loop.call_soon_threadsafe(server.release.set)


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
            pause.wait(0.002)  # the slow read under test
    assert received >= LARGE
    assert server.ended == {}


def test_thousand_idle_connections_do_not_block_new_ones(serve):
    """At the limit the longest idle connection is closed; active requests never are."""
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


def test_refused_bodies_in_flight_are_closed_for_new_connections(serve):
    server = serve(max_connections=5, linger_seconds=60)
    with contextlib.ExitStack() as many:
        for _ in range(5):
            refused = many.enter_context(server.connect())
            refused.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
            assert refused.recv(1000).startswith(b"HTTP/1.1 401")
        assert server.get().status == 200
    assert server.ended == {"gave_way": 1}


def test_new_connection_gets_503_with_retry_after_when_all_are_busy(serve):
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
