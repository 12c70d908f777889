"""MCP's client with real servers, in memory and over stdio: recorded tool calls."""

import asyncio
import sys

import mcp
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer

from tracereel import current_execution, traced_agent
from tracereel.integrations.mcp import instrument, uninstrument, unwrap, wrap

TOOL = "agent.tool.called"

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def get_weather(city: str) -> str:
    return f"sunny in {city}"


server.run()
"""


@pytest.fixture
def server():
    server = MCPServer("weather")

    @server.tool()
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    @server.tool()
    def broken(city: str) -> str:
        """Fails."""
        raise LookupError(city)

    return server


def test_a_tool_that_is_called_is_recorded_with_arguments_and_result(server, events):
    @traced_agent("asker")
    async def ask():
        async with mcp.Client(server) as client:
            wrap(client)
            wrap(client)
            found = await client.call_tool("get_weather", {"city": "Lima"})
            assert unwrap(client) is client
            await client.call_tool("get_weather", {"city": "Cusco"})
            return found

    found = asyncio.run(ask())

    assert isinstance(found, mcp.types.CallToolResult)
    (call,) = events.get_events(TOOL)
    assert (call["tool_name"], call["tool_type"], call["status"]) == (
        "get_weather",
        "mcp",
        "success",
    )
    assert (call["agent_name"], call["arguments"]) == ("asker", {"city": "Lima"})
    assert "sunny in Lima" in str(call["result"])


def test_failed_tool_has_the_servers_error(server, events):
    async def ask():
        async with mcp.Client(server) as client:
            return await wrap(client).call_tool("broken", {"city": "Lima"})

    assert asyncio.run(ask()).is_error

    (call,) = events.get_events(TOOL)
    assert (call["status"], call["error_type"]) == ("failed", "FailedToolError")
    assert "broken" in call["error_message"]


def test_an_error_of_the_client_is_raised_as_it_was(server, events):
    async def ask():
        async with mcp.Client(server) as client:
            wrap(client)
        await client.call_tool("get_weather", {"city": "Lima"})

    with pytest.raises(RuntimeError):
        asyncio.run(ask())

    (call,) = events.get_events(TOOL)
    assert (call["status"], call["error_type"]) == ("failed", "RuntimeError")


def test_every_session_is_recorded_between_instrument_and_uninstrument(server, events):
    async def ask():
        async with mcp.Client(server) as client:
            instrument()
            instrument()
            try:
                await wrap(client).call_tool("get_weather", {"city": "Lima"})
                await unwrap(client).call_tool("get_weather", {"city": "Cusco"})
            finally:
                uninstrument()
            await client.call_tool("get_weather", {"city": "Ica"})

    asyncio.run(ask())

    cities = [call["arguments"]["city"] for call in events.get_events(TOOL)]
    assert cities == ["Lima", "Cusco"]
    assert not current_execution()


def test_a_server_in_a_process_of_its_own(events, tmp_path):
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    parameters = StdioServerParameters(command=sys.executable, args=[str(program)])

    async def ask():
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            return await wrap(session).call_tool("get_weather", {"city": "Lima"})

    assert not asyncio.run(ask()).is_error

    (call,) = events.get_events(TOOL)
    assert call["arguments"] == {"city": "Lima"}


def test_wrapping_an_unsupported_object_is_a_type_error():
    with pytest.raises(TypeError, match="takes a client"):
        wrap(object())
