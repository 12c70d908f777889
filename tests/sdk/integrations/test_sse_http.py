"""SSE agents over HTTP, read by real clients with every API they offer."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
import requests

from tests.sdk.integrations.test_sse import ANSWER, DONE, FAILED, TOOL, only
from tracereel.integrations.sse import wrap
from tracereel.testing import EventRecorder

BODY = "".join(ANSWER).encode()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401 if self.path == "/refused" else 200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if self.path == "/refused":
            self.wfile.write(b'{"detail": "no key"}')
            return
        for at in range(0, len(BODY), 37):
            self.wfile.write(BODY[at : at + 37])
            self.wfile.flush()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def events():
    with EventRecorder() as recorder:
        yield recorder


def assert_recorded(events):
    done = only(events, DONE)
    assert done["output_summary"] == "Desde 2021 son 16 semanas."
    assert (done["session_id"], done["rounds"]) == ("thread_abc", 2)
    assert len(events.get_events(TOOL)) == 2


@pytest.mark.parametrize("way", ["iter_bytes", "iter_text", "iter_lines", "read"])
def test_httpx_gives_what_it_gives_bare(way, url, events):
    with httpx.stream("GET", url) as response:
        assert wrap(response, "ss-expert") is response
        if way == "read":
            assert response.read() == BODY
            assert b"".join(response.iter_bytes()) == BODY
        else:
            parts = list(getattr(response, way)())
            joined = (
                "\n".join(parts) + "\n" if way == "iter_lines" else type(parts[0])().join(parts)
            )
            assert joined == (BODY if way == "iter_bytes" else BODY.decode())

    assert_recorded(events)


@pytest.mark.parametrize("way", ["aiter_bytes", "aiter_lines"])
def test_httpx_async_gives_what_it_gives_bare(way, url, events):
    async def read():
        async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
            return [item async for item in getattr(wrap(response, "ss-expert"), way)()]

    parts = asyncio.run(read())

    if way == "aiter_bytes":
        assert b"".join(parts) == BODY
    else:
        assert parts == BODY.decode().splitlines()
    assert_recorded(events)


@pytest.mark.parametrize("way", ["iter_content", "iter_lines", "content"])
def test_requests_gives_what_it_gives_bare(way, url, events):
    with requests.get(url, stream=True, timeout=10) as response:
        assert wrap(response, "ss-expert") is response
        if way == "content":
            assert response.content == BODY
        elif way == "iter_lines":
            assert list(response.iter_lines()) == BODY.splitlines()
        else:
            assert b"".join(response.iter_content(16)) == BODY

    assert_recorded(events)


def test_lines_of_a_client_may_be_wrapped_themselves(url, events):
    with requests.get(url, stream=True, timeout=10) as response:
        assert list(wrap(response.iter_lines(), "ss-expert")) == BODY.splitlines()

    assert_recorded(events)


def test_a_refusal_is_a_failure_with_its_status(url, events):
    with httpx.stream("GET", f"{url}/refused") as response:
        assert wrap(response, "ss-expert").read() == b'{"detail": "no key"}'

    assert only(events, FAILED)["error_code"] == "HTTP_401"
