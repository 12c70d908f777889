"""Runs of requests: name, route, session and user, streams, background tasks and failures."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from fastapi import (  # noqa: E402
    APIRouter,
    BackgroundTasks,
    FastAPI,
    HTTPException,
    WebSocket,
)
from fastapi.responses import PlainTextResponse, StreamingResponse  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402
from starlette.middleware.base import BaseHTTPMiddleware  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

import tracereel  # noqa: E402
from tests.support.ingest_sink import IngestSink  # noqa: E402
from tests.support.replay_trial import recording  # noqa: E402
from tests.support.waiting import wait_until  # noqa: E402
from tracereel.integrations.asgi import TracereelMiddleware  # noqa: E402
from tracereel.propagation import current_identity  # noqa: E402
from tracereel.tape import format as tape_format  # noqa: E402

Deliver = Callable[[], list[dict[str, Any]]]
STARTED, COMPLETED = "agent.pipeline.started", "agent.pipeline.completed"


@tracereel.traced_agent("support")
async def answer(question: str) -> str:
    return question.upper()


@tracereel.traced_agent("indexer")
def index(text: str) -> int:
    return len(text)


@tracereel.traced_tool("find", effect="read")
def find(number: str) -> str:
    return f"order {number}"


@tracereel.traced_agent("finder")
async def look_up(number: str) -> str:
    return find(number)


@tracereel.traced_decision("agent", candidates=["finder", "support"])
def choose() -> str:
    return "finder"


@tracereel.traced_tool("token")
def token(number: int) -> str:
    return f"{number};"


def application(**options: Any) -> FastAPI:
    app = FastAPI()
    app.add_middleware(TracereelMiddleware, **options)
    nested = APIRouter(prefix="/v1")
    mounted = FastAPI()

    @app.get("/ask")
    async def ask(question: str, background: BackgroundTasks) -> str:
        background.add_task(index, question)
        return await answer(question)

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def tokens() -> AsyncIterator[str]:
            for number in range(3):
                yield token(number)

        return StreamingResponse(tokens())

    @app.get("/sync-stream")
    def sync_stream() -> StreamingResponse:
        return StreamingResponse(token(number) for number in range(3))

    @app.get("/health")
    async def health() -> str:
        return await answer("well")

    @app.get("/broken")
    async def broken() -> str:
        raise LookupError("no such order")

    @app.get("/busy")
    async def busy() -> str:
        raise HTTPException(503)

    @app.get("/missing")
    async def missing() -> str:
        raise HTTPException(404)

    @app.websocket("/chat/{room}")
    async def chat(socket: WebSocket, room: str) -> None:
        await socket.accept()
        await socket.send_text(await answer(room))
        await socket.close()

    @nested.get("/orders/{number}")
    async def order(number: int) -> str:
        return await answer(str(number))

    @mounted.get("/items/{item}")
    async def item(item: str) -> str:
        return await answer(item)

    app.include_router(nested, prefix="/api")
    app.mount("/shop/{shop}", mounted)
    return app


def requests_of(events: list[dict[str, Any]], kind: str = COMPLETED) -> list[dict[str, Any]]:
    return [event for event in events if event["event_type"] == kind]


def one_request(events: list[dict[str, Any]]) -> dict[str, Any]:
    (closed,) = requests_of(events)
    return closed


@contextmanager
def serving(app: Any) -> Iterator[str]:
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


def test_background_tasks_and_their_agents_belong_to_the_request(recorded: Deliver) -> None:
    with serving(application()) as url, httpx.Client(trust_env=False) as client:
        said = client.get(f"{url}/ask?question=where")
    assert said.json() == "WHERE"
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert {event["request_id"] for event in events if "request_id" in event} == {
        said.headers["x-request-id"]
    }
    (opened,), closed = requests_of(events, STARTED), one_request(events)
    agents = [event for event in events if event["event_type"] == "agent.execution.started"]
    assert [agent["agent_name"] for agent in agents] == ["support", "indexer"]
    assert {agent["parent_span_id"] for agent in agents} == {opened["span_id"]}
    assert (opened["http_method"], opened["http_route"]) == ("GET", "/ask")
    assert (closed["pipeline_type"], closed["status"]) == ("GET /ask", "success")
    assert (closed["http_status_code"], closed["response_chunks"]) == (200, 1)
    assert closed["agents_executed"] == closed["agents_succeeded"] == 2
    # The run ends after the background task.
    assert events[-1] is closed


@pytest.mark.parametrize("path", ["/stream", "/sync-stream"])
def test_streams_belong_to_the_request(recorded: Deliver, path: str) -> None:
    with serving(application()) as url, httpx.Client(trust_env=False) as client:
        assert client.get(url + path).text == "0;1;2;"
    events = recorded()
    closed = one_request(events)
    tools = [event for event in events if event["event_type"] == "agent.tool.called"]
    assert len(tools) == 3
    assert {tool["parent_span_id"] for tool in tools} == {closed["span_id"]}
    assert {event["trace_id"] for event in events} == {closed["trace_id"]}
    assert (closed["response_chunks"], closed["response_bytes"]) == (3, 6)
    assert events[-1] is closed


def test_request_is_cancelled_if_the_client_leaves_a_stream(
    recorded: Deliver, sink: IngestSink
) -> None:
    app = FastAPI()
    app.add_middleware(TracereelMiddleware)

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def tokens() -> AsyncIterator[str]:
            while True:
                yield token(1)
                await asyncio.sleep(0.001)

        return StreamingResponse(tokens())

    with serving(app) as url, httpx.Client(trust_env=False) as client:
        with client.stream("GET", f"{url}/endless") as response:
            next(response.iter_text())
        wait_until(lambda: requests_of(sink.events), message="the request does not end")
    closed = one_request(recorded())
    assert (closed["status"], closed["cancel_reason"]) == ("cancelled", "client_disconnected")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1/orders/17", "GET /api/v1/orders/{number}"),
        ("/shop/lima/items/hat", "GET /shop/{shop}/items/{item}"),
        ("/openapi.json", "GET /openapi.json"),
    ],
)
def test_runs_are_named_by_the_template_of_the_route(
    recorded: Deliver, path: str, name: str
) -> None:
    assert TestClient(application()).get(path).status_code == 200
    assert one_request(recorded())["pipeline_type"] == name


def test_starlette_applications_with_mounts_are_named_too(recorded: Deliver) -> None:
    async def page(request: Any) -> PlainTextResponse:
        return PlainTextResponse(await answer("page"))

    async def files(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("file")(scope, receive, send)

    inner = Mount("/inner", routes=[Route("/{page:int}", page, methods=["POST"])])
    app = Starlette(
        routes=[Mount("/outer", routes=[inner]), Mount("/files", app=files)],
        middleware=[Middleware(TracereelMiddleware)],
    )
    client = TestClient(app)
    assert client.post("/outer/inner/3").text == "PAGE"
    assert client.get("/files/secret-7.txt").text == "file"
    names = [event["pipeline_type"] for event in requests_of(recorded())]
    assert names == ["POST /outer/inner/{page:int}", "GET /files/{path}"]


def test_an_application_around_which_the_middleware_stands_shows_its_routes(
    recorded: Deliver,
) -> None:
    bare = FastAPI()

    @bare.get("/orders/{number}")
    async def order(number: int) -> str:
        return await answer(str(number))

    TestClient(TracereelMiddleware(bare)).get("/orders/4")  # type: ignore[arg-type]
    assert one_request(recorded())["pipeline_type"] == "GET /orders/{number}"


def test_requests_without_a_route_open_no_run(recorded: Deliver) -> None:
    client = TestClient(application())
    assert client.get("/nowhere").status_code == 404
    assert client.post("/ask").status_code == 405
    assert recorded() == []


def test_excluded_routes_open_no_run_but_keep_their_ids(recorded: Deliver) -> None:
    said = TestClient(application(exclude=["/health"])).get("/health")
    opened, closed = recorded()
    assert opened["agent_name"] == closed["agent_name"] == "support"
    assert opened["request_id"] == said.headers["x-request-id"]


def test_name_is_a_text_or_a_function_of_the_scope(recorded: Deliver) -> None:
    def name(scope: Any) -> str | None:
        return None if scope["path"] == "/health" else "web"

    TestClient(application(name="fixed")).get("/health")
    client = TestClient(application(name=name))
    client.get("/health")
    client.get("/nowhere")
    names = [(e["pipeline_type"], e["http_route"]) for e in requests_of(recorded(), STARTED)]
    assert names == [("fixed", "/health"), ("web", None)]


@pytest.mark.parametrize(
    ("session", "user"),
    [
        ("header:X-Session", "cookie:user"),
        ("query:s", "path:number"),
        (lambda _scope: "s1", lambda _scope: "17"),
    ],
    ids=["header and cookie", "query and path", "functions"],
)
def test_session_and_user_come_from_the_configured_places(
    recorded: Deliver, session: Any, user: Any
) -> None:
    client = TestClient(application(session=session, user=user))
    client.get(
        "/api/v1/orders/17?s=s1",
        headers={
            "x-session": "s1",
            "cookie": 'other=1; user="17"',
            "baggage": "tracereel.user_id=mallory,tracereel.session_id=other",
        },
    )
    events = recorded()
    assert len(events) == 4
    assert {(event["session_id"], event["user_id"]) for event in events} == {("s1", "17")}


def test_prompt_of_any_length_is_recorded_unless_content_is_not(
    recorded: Deliver, sink: IngestSink
) -> None:
    client = TestClient(application(prompt="query:question"))
    client.get("/ask", params={"question": "where is it? " * 100})
    (opened,) = requests_of(recorded(), STARTED)
    assert opened["user_prompt"].startswith("where is it? " * 50)
    tracereel.configure(endpoint=sink.url, capture_content=False)
    client.get("/ask?question=where")
    assert requests_of(recorded(), STARTED)[1]["user_prompt"] is None


def test_places_take_precedence_over_ids_of_a_trusted_sender(recorded: Deliver) -> None:
    app = application(session="header:x-session", user="header:x-user", trust=lambda _scope: True)
    ids = "tracereel.user_id=from-sender,tracereel.session_id=from-sender"
    TestClient(app).get("/health", headers={"baggage": ids, "x-session": "from-header"})
    event = recorded()[0]
    assert (event["session_id"], event["user_id"]) == ("from-header", "from-sender")


@pytest.mark.parametrize(
    "headers",
    [
        [("x-session", "a" * 300)],
        [("x-session", "a"), ("x-session", "b")],
        [("x-session", b"a\x01b")],
        [("x-session", "")],
    ],
    ids=["too long", "repeated", "not printable", "empty"],
)
def test_unusable_ids_are_ignored(recorded: Deliver, headers: list[Any]) -> None:
    TestClient(application(session="header:x-session")).get("/health", headers=headers)
    assert {event.get("session_id") for event in recorded()} == {None}


def test_query_with_very_many_fields_has_no_id(recorded: Deliver) -> None:
    TestClient(application(session="query:s")).get("/health?s=1&" + "a=1&" * 2000)
    assert {event.get("session_id") for event in recorded()} == {None}


@pytest.mark.parametrize("place", ["x-session", "body:session", "header:", "cookie"])
def test_places_in_another_form_are_refused(place: str) -> None:
    with pytest.raises(ValueError, match=r"session is .*; expected header:NAME, cookie:NAME"):
        TracereelMiddleware(FastAPI(), session=place)  # type: ignore[arg-type]


def test_functions_that_fail_do_not_reach_the_request(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")

    def fails(scope: Any) -> str:
        raise KeyError("state")

    said = TestClient(application(session=fails, user="query:u")).get("/health?u=1")
    assert said.json() == "WELL"
    assert {(e.get("session_id"), e["user_id"]) for e in recorded()} == {(None, "1")}
    assert TestClient(application(name=fails)).get("/health").json() == "WELL"


def test_errors_of_a_handler_fail_the_run_and_reach_the_server(recorded: Deliver) -> None:
    with pytest.raises(LookupError, match="no such order"):
        TestClient(application()).get("/broken")
    closed = one_request(recorded())
    assert (closed["status"], closed["error_type"]) == ("failed", "LookupError")


def test_server_errors_fail_the_run_and_client_errors_do_not(recorded: Deliver) -> None:
    client = TestClient(application())
    assert client.get("/busy").status_code == 503
    assert client.get("/missing").status_code == 404
    busy, missing = requests_of(recorded())
    assert (busy["status"], busy["http_status_code"]) == ("failed", 503)
    assert busy["error_message"] == "the response has the status 503"
    assert (missing["status"], missing["http_status_code"]) == ("success", 404)


def test_websocket_is_one_run_until_it_closes(recorded: Deliver) -> None:
    with TestClient(application(session="path:room")).websocket_connect("/chat/lobby") as chat:
        assert chat.receive_text() == "LOBBY"
    closed = one_request(recorded())
    assert (closed["pipeline_type"], closed["status"]) == ("WEBSOCKET /chat/{room}", "success")
    assert (closed["session_id"], closed["agents_executed"]) == ("lobby", 1)


def test_middleware_of_others_between_keeps_the_run(recorded: Deliver) -> None:
    app = application()
    app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=lambda r, go: go(r)))
    TestClient(app).get("/ask?question=where")
    events = recorded()
    assert len({event["trace_id"] for event in events}) == 1
    assert one_request(events)["agents_executed"] == 2


def test_requests_at_once_are_runs_of_their_own(recorded: Deliver) -> None:
    app = FastAPI()
    app.add_middleware(TracereelMiddleware, session="path:name")
    both = threading.Barrier(2)

    @app.get("/meet/{name}")
    def meet(name: str) -> str | None:
        both.wait(30)
        index(name)
        return current_identity().session_id

    with serving(app) as url, httpx.Client(trust_env=False) as client:
        said: list[str] = []
        names = ("ada", "bob")
        callers = [
            threading.Thread(
                target=lambda n=name: said.append(client.get(f"{url}/meet/{n}").json())
            )
            for name in names
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    assert sorted(said) == ["ada", "bob"]
    events = recorded()
    runs = {event["trace_id"]: set() for event in events}
    for event in events:
        runs[event["trace_id"]].add(event["session_id"])
    assert sorted(map(sorted, runs.values())) == [["ada"], ["bob"]]


def call_in_process(app: Any, path: str) -> None:
    async def send(message: dict[str, Any]) -> None: ...

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    asyncio.run(app(scope, receive, send))


def test_replays_of_a_request_or_of_its_function_find_the_same_calls() -> None:
    async def order(request: Any) -> PlainTextResponse:
        assert choose() == "finder"
        return PlainTextResponse(await look_up(request.path_params["number"]))

    app = Starlette(
        routes=[Route("/orders/{number}", order)], middleware=[Middleware(TracereelMiddleware)]
    )
    with recording() as events:
        call_in_process(app, "/orders/17")
    tape = tape_format.parse(events)
    assert (tape.header["entry"], tape.state) == (f"{__name__}:look_up", "yes")
    for again in (
        lambda: asyncio.run(look_up("17")),
        lambda: call_in_process(app, "/orders/17"),
    ):
        with tracereel.replay(tape) as run:
            again()
        assert run.report.divergences == []
        assert run.report.served == 1


def test_nothing_is_recorded_when_recording_is_off() -> None:
    tracereel.configure(enabled=False)
    assert TestClient(application()).get("/health").json() == "WELL"
