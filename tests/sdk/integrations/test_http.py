"""Context propagation over real HTTP: server middleware and client hooks."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace

httpx = pytest.importorskip("httpx")
requests = pytest.importorskip("requests")
pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from starlette.applications import Starlette  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402
from starlette.responses import JSONResponse, RedirectResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402

from tests.sdk.conftest import Child  # noqa: E402
from tests.support.ingest_sink import IngestSink  # noqa: E402
from tests.support.waiting import wait_until  # noqa: E402
from tracereel import traced_agent  # noqa: E402
from tracereel._core import remote_identity  # noqa: E402
from tracereel.integrations.asgi import TracereelMiddleware  # noqa: E402
from tracereel.integrations.http_clients import trace_httpx, trace_requests  # noqa: E402
from tracereel.propagation import CLOCK_HEADER, current_identity, extract, inject  # noqa: E402

Deliver = Callable[[], list[dict[str, Any]]]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def _no_parent_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACEPARENT", "TRACESTATE", "BAGGAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote_identity, "_process", "unread")


def name_of(event: dict[str, Any]) -> Any:
    return event.get("agent_name") or event.get("pipeline_type")


@traced_agent("server")
async def handle(headers: dict[str, str]) -> dict[str, Any]:
    identity = current_identity()
    return {"request_id": identity.request_id, "headers": headers}


async def endpoint(request: Any) -> JSONResponse:
    return JSONResponse(await handle(dict(request.headers)))


async def bounce(request: Any) -> RedirectResponse:
    # The same server under another name is another host to the hooks.
    return RedirectResponse(f"http://localhost:{request.url.port}/")


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    app = Starlette(
        routes=[Route("/", endpoint), Route("/bounce", bounce)],
        middleware=[Middleware(TracereelMiddleware, **options)],
    )
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture
def url(recorded: Deliver) -> Iterator[str]:
    with serving() as base:
        yield base


def get_httpx(url: str, **options: Any) -> Any:
    with httpx.Client(trust_env=False, follow_redirects=True) as client:
        return trace_httpx(client, **options).get(url)


def get_httpx_async(url: str, **options: Any) -> Any:
    async def get() -> Any:
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as client:
            return await trace_httpx(client, **options).get(url)

    return asyncio.run(get())


def get_requests(url: str, **options: Any) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        return trace_requests(session, **options).get(url)


CLIENTS = pytest.mark.parametrize("get", [get_httpx, get_httpx_async, get_requests])


@CLIENTS
def test_run_of_the_client_continues_in_the_server(
    recorded: Deliver, get: Callable[..., Any]
) -> None:
    caller = {"traceparent": PARENT, "baggage": "tracereel.trace_id=trc_abc"}
    with serving() as url, extract(caller):
        answer = traced_agent("client")(lambda: get(url))()
    events = sorted(recorded(), key=lambda event: str(event["hlc"]))
    assert {event["trace_id"] for event in events} == {"trc_abc"}
    opened = {name_of(e): e for e in events if e["event_type"].endswith("started")}
    assert opened["GET /"]["parent_span_id"] == opened["client"]["span_id"]
    assert opened["server"]["parent_span_id"] == opened["GET /"]["span_id"]
    assert opened["server"]["request_id"] == opened["client"]["request_id"]
    assert answer.json()["request_id"] == opened["client"]["request_id"]
    assert answer.headers["x-request-id"] == opened["client"]["request_id"]
    order = [name_of(event) for event in events]
    assert order[:4] == ["client", "GET /", "server", "server"]
    # The client may have its answer before the request has ended.
    assert sorted(order[4:]) == ["GET /", "client"]


@CLIENTS
def test_hosts_that_are_not_named_get_no_ids_even_by_a_redirect(
    url: str, recorded: Deliver, get: Callable[..., Any]
) -> None:
    there = traced_agent("client")(lambda: get(f"{url}/bounce", hosts=["127.0.0.*"]))()
    headers = there.json()["headers"]
    assert headers["host"].startswith("localhost")
    assert headers["traceparent"].startswith("00-")
    assert "tracereel" not in headers.get("baggage", "")
    here = traced_agent("client")(lambda: get(url, hosts=["127.0.0.*"]))()
    assert "tracereel.request_id" in here.json()["headers"]["baggage"]


@CLIENTS
def test_outside_of_a_run_requests_are_as_they_were(url: str, get: Callable[..., Any]) -> None:
    headers = get(url).json()["headers"]
    assert headers.keys().isdisjoint(["traceparent", "tracestate", "baggage"])


def test_hooks_are_set_once(url: str, recorded: Deliver) -> None:
    with httpx.Client() as client, requests.Session() as session:
        hooks = [len(trace_httpx(client).event_hooks["request"]) for _ in range(2)]
        first = trace_requests(session).send
        assert trace_requests(session).send is first
    assert hooks == [1, 1]


def test_requests_without_context_get_a_run_and_an_id_of_their_own(recorded: Deliver) -> None:
    with serving() as url, httpx.Client(trust_env=False) as client:
        plain = [client.get(url) for _ in range(2)]
        named = client.get(url, headers={"x-request-id": "mine-1"})
        odd = client.get(url, headers={"x-request-id": b"a\xe9b"})
    ids = [answer.headers["x-request-id"] for answer in plain]
    assert len(set(ids)) == 2
    assert [answer.json()["request_id"] for answer in plain] == ids
    assert named.headers["x-request-id"] == named.json()["request_id"] == "mine-1"
    assert odd.json()["request_id"] == "aéb"
    assert odd.headers["x-request-id"] == "a%C3%A9b"
    assert CLOCK_HEADER not in plain[0].headers
    assert len({event["trace_id"] for event in recorded()}) == 4


def test_context_of_untrusted_clients_is_ignored(recorded: Deliver) -> None:
    sent = {
        "traceparent": PARENT,
        "baggage": "tracereel.trace_id=trc_abc",
        "x-request-id": "mine",
        "x-inside": "1",
    }
    inside = (b"x-inside", b"1")
    with (
        serving(trust=lambda scope: inside in scope["headers"]) as url,
        httpx.Client(trust_env=False) as client,
    ):
        believed = client.get(url, headers=sent)
        stranger = client.get(url, headers={**sent, "x-inside": "0"})
    assert believed.json()["request_id"] == "mine"
    assert stranger.json()["request_id"] != "mine"
    adopted = [event["trace_id"] == "trc_abc" for event in recorded()]
    assert adopted == [True] * 4 + [False] * 4


def test_a_server_in_another_process_with_a_clock_ahead(
    recorded: Deliver, sink: IngestSink, child: Child
) -> None:
    """Its response contains its clock, so the client's next events come after it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = child(
        f"""
        import sys, threading, time
        real = time.time_ns
        time.time_ns = lambda: real() + 50 * 10**9

        import tracereel, uvicorn
        from tracereel.integrations.asgi import TracereelMiddleware

        @tracereel.traced_agent("server")
        async def work(): ...

        async def app(scope, receive, send):
            await work()
            await send({{"type": "http.response.start", "status": 200, "headers": []}})
            await send({{"type": "http.response.body", "body": b"ok"}})

        config = uvicorn.Config(
            TracereelMiddleware(app), port={port}, log_config=None, lifespan="off", ws="none"
        )
        server = uvicorn.Server(config)
        def stop():
            sys.stdin.read()
            server.should_exit = True
        threading.Thread(target=stop, daemon=True).start()
        server.run()
        assert tracereel.flush(20.0).spooled == 0
        """,
        TRACEREEL_ENDPOINT=sink.url,
    )
    address = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        assert server.poll() is None, server.communicate()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_up, timeout=60)
    traced_agent("client")(lambda: get_httpx(address))()
    _, err = server.communicate("", timeout=60)
    assert server.returncode == 0, err
    events = sorted(recorded(), key=lambda event: str(event["hlc"]))
    assert [e["agent_name"] for e in events] == ["client", "server", "server", "client"]
    assert len({event["trace_id"] for event in events}) == 1


# Cases that need no server.


def run_app(app: Any, scope: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    asyncio.run(TracereelMiddleware(app, **options)(scope, receive, send))  # type: ignore[arg-type]
    return sent


def test_websockets_are_adopted_too(recorded: Deliver) -> None:
    seen: list[str | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(current_identity().request_id)
        await send({"type": "websocket.accept"})

    headers = [(b"baggage", b"tracereel.request_id=r1")]
    (accepted,) = run_app(app, {"type": "websocket", "headers": headers})
    assert seen == ["r1"]
    assert (b"x-request-id", b"r1") in accepted["headers"]


def test_other_scopes_and_the_applications_errors_pass_untouched(recorded: Deliver) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "lifespan.startup.complete"})
        raise LookupError(scope["type"])

    for kind in ("lifespan", "http"):
        with pytest.raises(LookupError, match=kind):
            run_app(app, {"type": kind, "headers": []})


def test_the_server_span_of_another_instrumentation_stays_the_parent(recorded: Deliver) -> None:
    around = trace.SpanContext(int(PARENT[3:35], 16), 0xABC, is_remote=False)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await handle({})

    with trace.use_span(trace.NonRecordingSpan(around)):
        run_app(app, {"type": "http", "headers": [(b"traceparent", PARENT.encode())]})
    assert recorded()[0]["parent_span_id"] == f"{0xABC:016x}"


def test_a_request_is_not_part_of_the_run_that_started_the_server(recorded: Deliver) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await handle({})

    traced_agent("starter")(lambda: run_app(app, {"type": "http", "headers": []}))()
    opened = {e["agent_name"]: e for e in recorded() if e["event_type"].endswith("started")}
    assert opened["server"]["trace_id"] != opened["starter"]["trace_id"]
    assert opened["server"]["parent_span_id"] is None
    assert opened["server"]["request_id"] != opened["starter"]["request_id"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (None, None, "r1")),
        ({"trust": lambda _scope: True}, ("mallory", "s1", "r1")),
    ],
    ids=["default", "trusted"],
)
def test_user_and_session_of_untrusted_clients_are_ignored(
    recorded: Deliver, options: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    passed_on: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await handle({})
        passed_on.append(str(inject({}).get("baggage")))

    claims = b"tracereel.user_id=mallory,tracereel.session_id=s1,tracereel.request_id=r1"
    run_app(app, {"type": "http", "headers": [(b"baggage", claims)]}, **options)

    event = recorded()[0]
    assert (event.get("user_id"), event.get("session_id"), event["request_id"]) == expected
    assert ("mallory" in passed_on[0]) == (expected[0] is not None)
