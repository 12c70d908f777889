"""Streams of the client: parsed as the specification says, gone on with where they broke off."""

import asyncio
import json
import socket
import threading

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import wait_until
from tracereel.client import (
    AsyncClient,
    Client,
    ClientError,
    CollectorUnavailableError,
    UnexpectedAnswerError,
    errors,
)
from tracereel.client.sse import messages

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def frame(number, event="event", **details):
    data = json.dumps({"time": "t", "event": "custom.x", "details": {"n": number, **details}})
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n".encode()


class ScriptedServer:
    """A real socket that answers each connection with the next of its scripts."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.requests = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        for connection in self._open:
            connection.close()

    def _serve(self):
        for script in self.scripts:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            self.requests.append(data.decode())
            connection.sendall(script)
            if script.endswith(b"hold\n"):
                self._open.append(connection)
            else:
                connection.close()


def test_a_tail_gives_each_record_and_knows_how_far_it_is():
    script = HEAD + b"retry: 1\nid: 4\n\n" + frame(5) + frame(6) + end()
    with (
        ScriptedServer(script) as server,
        Client(server.url).tail(agent=["a", "b"], q="two words") as stream,
    ):
        steps = list(stream)

    assert [step.details["n"] for step in steps] == [5, 6]
    assert stream.last_event_id == "6"
    assert "GET /v1/tail?agent=a&agent=b&q=two+words HTTP" in server.requests[0]
    assert stream.ended_with["reason"] == "over"


def end(*, retry=False):
    return b'event: end\ndata: {"reason": "over", "retry": %s}\n\n' % str(retry).lower().encode()


@pytest.mark.parametrize(
    "broken",
    [b"", b"event: lagged\ndata: {}\n\n", end(retry=True), b"id: 7\ndata: {\n"],
    ids=["cut off", "lagged", "stopped", "in the middle"],
)
def test_a_stream_that_breaks_off_goes_on_behind_the_last_event_seen(monkeypatch, broken):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.01)
    with ScriptedServer(HEAD + frame(5) + broken, HEAD + frame(6) + end()) as server:
        stream = Client(server.url, "key").tail()
        steps = list(stream)

    assert [step.details["n"] for step in steps] == [5, 6]
    assert "Last-Event-ID: 5" in server.requests[1]
    assert stream.reconnects == 1


def test_what_the_collector_says_besides_is_counted_and_told():
    told = []
    gap = b'event: gap\ndata: {"after": 1, "before": 5}\n\n'
    with ScriptedServer(HEAD + gap + frame(5) + end()) as server:
        stream = Client(server.url).tail(on_notice=lambda message: told.append(message.event))
        assert len(list(stream)) == 1

    assert (stream.gaps, told) == (1, ["gap", "end"])


def test_a_collector_that_stays_away_is_an_error_in_the_end(monkeypatch):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.0)
    with ScriptedServer() as server:
        url = server.url

    with pytest.raises(CollectorUnavailableError) as caught:
        list(Client(url).tail())

    assert caught.value.retryable


def test_a_refusal_is_not_tried_again():
    body = b'{"error": {"message": "no such scope"}}'
    refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    with (
        ScriptedServer(refusal, HEAD) as server,
        pytest.raises(errors.AccessDeniedError, match="no such scope"),
    ):
        list(Client(server.url).tail())

    assert len(server.requests) == 1


def test_an_answer_that_is_no_stream_is_named_as_such():
    with (
        ScriptedServer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") as server,
        pytest.raises(UnexpectedAnswerError, match="does not stream"),
    ):
        list(Client(server.url).tail())


def test_a_stream_is_closed_from_another_thread():
    with ScriptedServer(HEAD + frame(1) + b": hold\n") as server:
        stream = Client(server.url).tail()
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(stream))
        reader.start()
        wait_until(lambda: server.requests)
        stream.close()
        reader.join(10)

        assert not reader.is_alive()


def connections_to(url):
    port = int(url.rpartition(":")[2])
    found = psutil.Process().net_connections()
    return [each for each in found if each.raddr and each.raddr.port == port]


def test_a_stream_that_is_left_in_the_middle_gives_its_connection_back():
    with ScriptedServer(HEAD + frame(1) + frame(2) + b": hold\n") as server:
        stream = Client(server.url).tail()
        steps = iter(stream)
        assert next(steps).details["n"] == 1
        assert len(connections_to(server.url)) == 1

        stream.close()

        assert connections_to(server.url) == []


def test_a_refused_stream_gives_its_connection_back():
    body = b"x" * 1_000_000
    refusal = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n" + body + b": hold\n"
    with ScriptedServer(refusal) as server:
        with pytest.raises(errors.AccessDeniedError) as caught:
            list(Client(server.url).tail())

        assert connections_to(server.url) == [], caught


def test_coroutines_read_the_same_and_may_stop_at_any_time():
    async def read(url):
        seen = []
        async with AsyncClient(url) as client, client.tail() as stream:
            async for step in stream:
                seen.append(step.details["n"])
                if len(seen) == 2:
                    break
        return seen

    with ScriptedServer(HEAD + frame(1) + frame(2) + b": hold\n") as server:
        assert asyncio.run(read(server.url)) == [1, 2]


@given(
    st.lists(
        st.tuples(
            st.text("abc", min_size=1, max_size=5),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.data(),
)
def test_messages_do_not_depend_on_how_the_bytes_are_cut(sent, newline, data):
    lines = [
        line
        for name, text in sent
        for line in (f"event: {name}", f"data: {text}", ": comment", "id: 1", "")
    ]
    wire = b"".join(line.encode() + newline for line in lines) + (b":" if newline == b"\r" else b"")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=6)))
    chunks = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]

    shown = list(messages(chunks))

    assert [(message.event, message.data) for message in shown] == sent


def test_every_error_says_whether_it_may_go_away():
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    known = {each.__name__: each.retryable for each in kinds if issubclass(each, ClientError)}

    assert {name for name, retryable in known.items() if retryable} == {
        "CollectorUnavailableError",
        "ConnectionLostError",
    }
