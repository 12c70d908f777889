"""MCP's client with a real server over streamable HTTP: tools, errors, sessions and tapes."""

import asyncio
import contextlib
import socket
import threading

import mcp
import pytest
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

import tracereel
from tests.support.replay_trial import recording
from tests.support.waiting import wait_until
from tracereel import current_execution, traced_agent
from tracereel.integrations.mcp import instrument, uninstrument, wrap
from tracereel.tape import DivergenceError
from tracereel.tape import format as tape_format

TOOL = "agent.tool.called"


class Served:
    """Run an MCP server on its own port."""

    def __init__(self, *, json_response):
        self.asked = []
        tools = MCPServer("weather")

        @tools.tool()
        async def get_weather(city: str) -> dict[str, str]:
            """The weather of a city."""
            self.asked.append(city)
            return {"city": city, "sky": "sunny"}

        @tools.tool()
        async def broken(city: str) -> str:
            """Fails."""
            raise ToolError(f"no such city: {city}")

        @tools.tool()
        async def slow(city: str) -> str:
            """Does not answer in time."""
            self.asked.append(city)
            await asyncio.sleep(30)
            return city

        app = tools.streamable_http_app(json_response=json_response)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp"
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: self._server.run(sockets=[self._socket]), daemon=True
        )
        self._thread.start()
        wait_until(lambda: self._server.started)

    def stop(self):
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


@pytest.fixture(scope="module", params=[False, True], ids=["event stream", "json"])
def server(request):
    served = Served(json_response=request.param)
    yield served
    served.stop()


@contextlib.asynccontextmanager
async def session_of(url):
    async with streamable_http_client(url) as streams, mcp.ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


def test_a_tool_over_http_is_recorded_within_its_agent(server, events):
    @traced_agent("asker", session_id="chat-7")
    async def ask():
        async with mcp.Client(server.url) as client:
            return await wrap(client).call_tool("get_weather", {"city": "Lima"})

    found = asyncio.run(ask())

    assert found.structured_content == {"city": "Lima", "sky": "sunny"}
    (call,) = events.get_events(TOOL)
    assert (call["tool_name"], call["tool_type"], call["status"]) == (
        "get_weather",
        "mcp",
        "success",
    )
    assert (call["agent_name"], call["session_id"]) == ("asker", "chat-7")
    assert (call["arguments"], call["result"]) == (
        {"city": "Lima"},
        {"city": "Lima", "sky": "sunny"},
    )


def test_a_session_of_its_own_is_recorded_and_is_no_session_of_ours(server, events):
    """The server's connection id is not a session id of the conversation."""

    async def ask():
        async with session_of(server.url) as session:
            return await wrap(session).call_tool("get_weather", {"city": "Cusco"})

    assert not asyncio.run(ask()).is_error

    (call,) = events.get_events(TOOL)
    assert call["arguments"] == {"city": "Cusco"}
    assert call.get("session_id") is None


def test_calls_side_by_side_are_each_their_own(server, events):
    cities = ["Lima", "Cusco", "Ica", "Puno"]

    @traced_agent("asker")
    async def ask():
        async with mcp.Client(server.url) as client:
            wrap(client)
            calls = [client.call_tool("get_weather", {"city": city}) for city in cities]
            return await asyncio.gather(*calls)

    assert [each.structured_content["city"] for each in asyncio.run(ask())] == cities

    calls = events.get_events(TOOL)
    assert sorted(call["arguments"]["city"] for call in calls) == sorted(cities)
    assert all(call["result"]["city"] == call["arguments"]["city"] for call in calls)
    assert len({call["span_id"] for call in calls}) == len(cities)


def test_a_tool_that_fails_or_is_not_there_is_a_failure_with_the_servers_words(server, events):
    async def ask():
        async with mcp.Client(server.url) as client:
            wrap(client)
            answers = [await client.call_tool("broken", {"city": "Lima"})]
            with contextlib.suppress(mcp.MCPError):
                answers.append(await client.call_tool("nowhere", {}))
            return answers

    assert asyncio.run(ask())[0].is_error

    broken, nowhere = events.get_events(TOOL)
    assert (broken["status"], broken["error_type"]) == ("failed", "FailedToolError")
    assert "no such city: Lima" in broken["error_message"]
    assert nowhere["status"] == "failed"
    assert "nowhere" in nowhere["error_message"]


def test_a_server_that_takes_too_long_is_a_failure_and_one_that_is_left_a_cancellation(
    server, events
):
    async def ask():
        async with mcp.Client(server.url) as client:
            wrap(client)
            with pytest.raises(mcp.MCPError):
                await client.call_tool("slow", {"city": "Lima"}, read_timeout_seconds=0.2)
            task = asyncio.create_task(client.call_tool("slow", {"city": "Tacna"}))
            await asyncio.to_thread(wait_until, lambda: "Tacna" in server.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(ask())

    late, left = events.get_events(TOOL)
    assert (late["status"], late["error_type"]) == ("failed", "MCPError")
    assert left["status"] == "cancelled"
    assert not current_execution()


def test_every_session_over_http_is_recorded_between_instrument_and_uninstrument(server, events):
    async def ask():
        async with mcp.Client(server.url) as client, session_of(server.url) as session:
            instrument()
            try:
                await client.call_tool("get_weather", {"city": "Lima"})
                await session.call_tool("get_weather", {"city": "Cusco"})
            finally:
                uninstrument()
            await client.call_tool("get_weather", {"city": "Ica"})

    asyncio.run(ask())

    cities = [call["arguments"]["city"] for call in events.get_events(TOOL)]
    assert cities == ["Lima", "Cusco"]


def asker(city):
    @traced_agent("asker")
    async def ask(client):
        first = await client.call_tool("get_weather", {"city": city})
        second = await client.call_tool("broken", {"city": city})
        try:
            await client.call_tool("slow", {"city": city}, read_timeout_seconds=0.1)
        except mcp.MCPError as error:
            return first, second, str(error), error.code
        return None

    async def run(url):
        async with mcp.Client(url) as client:
            return await ask(wrap(client))

    return run


def test_taped_mcp_tools_are_replayed_without_the_server(server):
    """The connection is real, as the replay allows; no tool is called through it."""
    with recording() as events:
        first = asyncio.run(asker("Lima")(server.url))
    asked = list(server.asked)
    assert isinstance(first[0], mcp.types.CallToolResult)
    assert first[1].is_error

    with tracereel.replay(tape_format.parse(events), allow_network=["127.0.0.1"]) as replayed:
        again = asyncio.run(asker("Lima")(server.url))

    assert again == first
    assert server.asked == asked
    assert replayed.report.identical
    assert replayed.report.live == 0


def test_another_argument_is_a_divergence(server):
    with recording() as events:
        asyncio.run(asker("Lima")(server.url))

    with (
        pytest.raises((DivergenceError, BaseExceptionGroup)) as raised,
        tracereel.replay(tape_format.parse(events), allow_network=["127.0.0.1"]),
    ):
        asyncio.run(asker("Cusco")(server.url))
    assert "Cusco" in str(raised.value) or raised.group_contains(DivergenceError)
