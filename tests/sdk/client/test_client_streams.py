"""Client streams: parsed by the SSE specification and resumed after disconnects."""

import asyncio
import json
import threading

import psutil
import pytest

from tests.support.raw_answers import HOLD, ScriptedServer
from tests.support.waiting import wait_until
from tracereel.client import (
    AsyncClient,
    Client,
    ClientError,
    CollectorUnavailableError,
    UnexpectedAnswerError,
    errors,
)
from tracereel.client.streams import TRIES

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def frame(number, event="event", **details):
    data = json.dumps({"time": "t", "event": "custom.x", "details": {"n": number, **details}})
    return f"id: {number}\nevent: {event}\ndata: {data}\n\n".encode()


def test_tail_yields_each_record_and_tracks_its_position():
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
def test_broken_stream_resumes_after_the_last_event(monkeypatch, broken):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.01)
    with ScriptedServer(HEAD + frame(5) + broken, HEAD + frame(6) + end()) as server:
        stream = Client(server.url, "key").tail()
        steps = list(stream)

    assert [step.details["n"] for step in steps] == [5, 6]
    assert "Last-Event-ID: 5" in server.requests[1]
    assert stream.reconnects == 1


def test_tail_notices_are_counted_and_passed_to_the_callback():
    told = []
    gap = b'event: gap\ndata: {"after": 1, "before": 5}\n\n'
    with ScriptedServer(HEAD + gap + frame(5) + end()) as server:
        stream = Client(server.url).tail(on_notice=lambda message: told.append(message.event))
        assert len(list(stream)) == 1

    assert (stream.gaps, told) == (1, ["gap", "end"])


def test_tail_fails_after_a_permanent_outage(monkeypatch):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.0)
    with ScriptedServer() as server:
        url = server.url

    with pytest.raises(CollectorUnavailableError) as caught:
        list(Client(url).tail())

    assert caught.value.retryable


def test_a_quiet_tail_survives_any_number_of_cut_connections(monkeypatch):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("tracereel.client.streams.LAST_PAUSE", 0.0)
    quiet = [HEAD + b"retry: 1\nid: 4\n\n"] * (2 * TRIES)
    with ScriptedServer(*quiet, HEAD + frame(5) + end()) as server:
        stream = Client(server.url).tail()
        steps = list(stream)

    assert [step.details["n"] for step in steps] == [5]
    assert stream.reconnects == 2 * TRIES


def test_a_stream_that_never_sends_anything_is_an_error_in_the_end(monkeypatch):
    monkeypatch.setattr("tracereel.client.streams.FIRST_PAUSE", 0.0)
    monkeypatch.setattr("tracereel.client.streams.LAST_PAUSE", 0.0)
    with ScriptedServer(*[HEAD] * (2 * TRIES)) as server:
        with pytest.raises(errors.ConnectionLostError):
            list(Client(server.url).tail())

        assert len(server.requests) == TRIES


def test_refused_stream_is_not_retried():
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
    with ScriptedServer(HEAD + frame(1) + HOLD) as server:
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
    with ScriptedServer(HEAD + frame(1) + frame(2) + HOLD) as server:
        stream = Client(server.url).tail()
        steps = iter(stream)
        assert next(steps).details["n"] == 1
        assert len(connections_to(server.url)) == 1

        stream.close()

        assert connections_to(server.url) == []


def test_a_refused_stream_gives_its_connection_back():
    body = b"x" * 1_000_000
    refusal = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n" + body + HOLD
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

    with ScriptedServer(HEAD + frame(1) + frame(2) + HOLD) as server:
        assert asyncio.run(read(server.url)) == [1, 2]


def test_an_event_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr("tracereel.client.streams.MAX_EVENT_BYTES", 1000)
    script = HEAD + frame(1) + b"data: " + b"x" * 2000 + HOLD
    with ScriptedServer(script) as server, Client(server.url).tail() as stream:
        steps = iter(stream)
        assert next(steps).details["n"] == 1
        with pytest.raises(UnexpectedAnswerError, match="more than 1000 bytes"):
            next(steps)


def test_stream_waits_for_retry_before_reconnecting(monkeypatch):
    pauses = []

    class Closed(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)

    with ScriptedServer(HEAD + b"retry: 1500\n\n", HEAD + frame(5) + end()) as server:
        stream = Client(server.url).tail()
        monkeypatch.setattr(stream, "_closed", Closed())
        assert len(list(stream)) == 1

    assert pauses == [1.5]


def test_every_client_error_has_a_retryable_flag():
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    known = {each.__name__: each.retryable for each in kinds if issubclass(each, ClientError)}

    assert {name for name, retryable in known.items() if retryable} == {
        "CollectorUnavailableError",
        "ConnectionLostError",
    }
