"""A response that is still being sent ends when its key is revoked or expires."""

import http.client
import importlib
import pkgutil
import socket
import time
from urllib.parse import quote

import pytest
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse

import tracereel_collector.http
from tests.support.contract import example
from tests.support.sse import EventStream
from tests.support.two_tenants import Site
from tests.support.waiting import wait_until
from tracereel_collector.auth.keys import parse_scopes
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.http.streams import RECHECK_SECONDS, AdmittedStream, HeldStream, is_stream

EVENTS, SIZE = 400, 60_000
BIG_SELECT = quote(f"SELECT repeat('x', {SIZE}) FROM (SELECT arrayJoin(range({EVENTS})))")
ENDED_BY_AN_EVENT = {
    "tail": ("/v1/tail", "end"),
    "replay": ("/v1/replay/trc-slow?stream=1&speed=1", "cut"),
}
BROKEN_OFF = {
    "export": "/v1/export?agent=large",
    "clickhouse": f"/clickhouse?query={BIG_SELECT}",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("streams"))
    for start in range(0, EVENTS, 100):
        large = [
            {"event_id": f"large-{n}", "agent_name": "large", "reasoning": f"{n} " * (SIZE // 4)}
            for n in range(start, start + 100)
        ]
        made.send(*large, wait=start + 100 == EVENTS)
    made.send(
        *(
            {"event_id": f"slow-{hour}", "trace_id": "trc-slow"}
            | {"timestamp": f"2026-01-01T{hour:02}:00:00Z"}
            for hour in (1, 9)
        )
    )
    made.settle()
    yield made
    made.collector.stop()


def make_key(site, **options):
    secret, key = KeyStore.of(site.collector.data_dir).create(
        tenant="alpha", scopes=parse_scopes("read"), by="test", **options
    )
    wait_until(
        lambda: site.ask("GET", "/v1/agents", tenant=None, **{"x-api-key": secret}).status == 200
    )
    return secret, key


def revoke(site, key):
    KeyStore.of(site.collector.data_dir).revoke(key.id, by="test")


def refusals(site, reason):
    return site.collector.metric("tracereel_access_refused_total", reason=reason) or 0


@pytest.mark.parametrize("route", ENDED_BY_AN_EVENT)
def test_event_stream_ends_with_the_reason_when_its_key_is_revoked(site, route):
    path, last = ENDED_BY_AN_EVENT[route]
    secret, key = make_key(site)

    with EventStream(f"{site.url}{path}", headers={"x-api-key": secret}) as stream:
        revoke(site, key)
        wait_until(lambda: stream.ended)

    assert stream.messages[-1].name == last
    assert stream.messages[-1].data == {"reason": "the API key is revoked", "retry": False}


def test_event_stream_ends_when_its_key_expires(site):
    secret, _ = make_key(site, expires="4s")

    with EventStream(f"{site.url}/v1/tail", headers={"x-api-key": secret}) as stream:
        wait_until(lambda: stream.ended)

    assert stream.messages[-1].data["reason"] == "the API key is expired"


@pytest.mark.parametrize("route", BROKEN_OFF)
def test_long_answer_breaks_off_when_its_key_is_revoked(site, route):
    """The reader takes nothing, so that most of the response is still unsent."""
    secret, key = make_key(site)
    host, _, port = site.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    connection.sock.connect((host, int(port)))
    connection.request("GET", BROKEN_OFF[route], headers={"x-api-key": secret})
    answer = connection.getresponse()
    assert answer.status == 200
    before = refusals(site, "revoked_key")

    revoke(site, key)
    wait_until(lambda: refusals(site, "revoked_key") > before)

    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    connection.close()


def test_stream_of_a_valid_key_continues(site):
    secret, _ = make_key(site)
    with EventStream(f"{site.url}/v1/tail", headers={"x-api-key": secret}) as stream:
        checked = refusals(site, "revoked_key")
        other, key = make_key(site)
        with EventStream(f"{site.url}/v1/tail", headers={"x-api-key": other}) as ended:
            revoke(site, key)
            wait_until(lambda: ended.ended)
        site.send({**example("agent.execution.completed"), "event_id": "goes-on"})
        shown = stream.wait_for(1)
        assert shown[0].data["details"]["event_id"] == "goes-on"
        assert not stream.ended
        assert refusals(site, "revoked_key") > checked


def test_every_module_that_streams_is_tested_here():
    """A new streaming route has to be added to the tables above."""
    found = set()
    for module in pkgutil.iter_modules(tracereel_collector.http.__path__):
        loaded = importlib.import_module(f"tracereel_collector.http.{module.name}")
        for value in vars(loaded).values():
            if value in (StreamingResponse, FileResponse, HeldStream) or (
                isinstance(value, type)
                and issubclass(value, Response)
                and value.__module__ == loaded.__name__
            ):
                found.add(module.name)

    assert found - {"streams"} == ENDED_BY_AN_EVENT.keys() | BROKEN_OFF.keys()


def test_answers_without_a_length_are_checked_again():
    async def nothing():
        yield b""

    assert RECHECK_SECONDS <= 5
    assert is_stream(StreamingResponse(nothing()))
    assert is_stream(StreamingResponse(nothing(), headers={"content-length": "9"}))
    assert is_stream(FileResponse(__file__))
    assert is_stream(AdmittedStream(StreamingResponse(nothing()), time.monotonic))
    assert not is_stream(Response(b"whole"))
    assert not is_stream(JSONResponse({}))
