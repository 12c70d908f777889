"""LangChain on tape: models through their clients, tools and retrievers as called."""

import asyncio
import contextlib

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_openai import ChatOpenAI
from pydantic import Field

import tracereel
from tests.sdk.clients.standin import StandIn
from tests.support.replay_trial import recording
from tracereel import traced_agent, traced_tool
from tracereel.integrations import openai as ours_openai
from tracereel.integrations.langchain import TracereelHandler
from tracereel.tape import NotAllowedError, fork
from tracereel.tape import format as tape_format
from tracereel.testing import EventRecorder


@pytest.fixture
def server():
    server = StandIn()
    yield server
    with contextlib.suppress(OSError):
        stop(server)


def stop(server):
    server.reset()
    server.shutdown()
    server.server_close()


def lives(city: str) -> str:
    """Return how many people live in a city."""
    done.append(city)
    return f"{len(done)} people live in {city}"


async def lives_async(city: str) -> str:
    """Return how many people live in a city."""
    return lives(city)


class Library(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        done.append(query)
        return [Document(id=f"law-{len(done)}", page_content=query)]


class Counter(BaseTool):
    """Tool implemented as a class."""

    name: str = "lives"
    description: str = "How many people live in a city."
    metadata: dict | None = Field(default_factory=lambda: {"effect": "read"})

    def _run(self, city: str) -> str:
        return lives(city)


done = []
TOOLS = {
    "function": lambda: tool("lives")(lives),
    "coroutine": lambda: StructuredTool.from_function(
        coroutine=lives_async, name="lives", description="How many people live in a city."
    ),
    "class": Counter,
    "traced": lambda: tool("lives")(traced_tool("inner", effect="read")(lives)),
    "retriever": Library,
}


@pytest.mark.parametrize(
    ("made", "way"),
    [
        (made, way)
        for made in TOOLS
        for way in ("invoke", "ainvoke")
        if (made, way) != ("coroutine", "invoke")  # it has no plain form
    ],
)
def test_langchain_tools_are_served_from_the_tape(made, way):
    used = TOOLS[made]()

    @traced_agent("asker")
    def ask():
        given = "Lima" if made == "retriever" else {"city": "Lima"}
        config = {"callbacks": [TracereelHandler()]}
        asked = [used.invoke(given, config) for _ in range(2)] if way == "invoke" else []
        if way == "ainvoke":
            asked = [asyncio.run(used.ainvoke(given, config)) for _ in range(2)]
        return asked

    done.clear()
    with recording() as events:
        first = ask()
    tape = tape_format.parse(events)
    assert (tape.state, tape.reasons) == ("yes", ())
    assert done == ["Lima", "Lima"]

    with tracereel.replay(tape) as replayed:
        assert ask() == first
    assert replayed.report.identical
    assert replayed.report.served == 2
    assert done == ["Lima", "Lima"]


@pytest.mark.parametrize(("made", "runs"), [("function", False), ("class", True), ("traced", True)])
def test_langchain_tool_runs_in_a_fork_only_if_it_is_read_only(made, runs):
    used = TOOLS[made]()

    @traced_agent("asker")
    def ask():
        return used.invoke({"city": "Lima"}, {"callbacks": [TracereelHandler()]})

    with recording() as events:
        ask()
    tape = tape_format.parse(events)
    done.clear()

    with EventRecorder(), fork(tape, at=1, allow=["inner"]):
        if runs:
            ask()
        else:
            with pytest.raises(NotAllowedError, match="lives"):
                ask()
    assert done == (["Lima"] if runs else [])


def test_a_tool_that_raises_raises_again():
    @tool
    def fails(city: str) -> str:
        """A tool that fails."""
        done.append(city)
        raise ToolException(f"no {city}, {len(done)}")

    @traced_agent("asker")
    def ask():
        try:
            return fails.invoke({"city": "Lima"}, {"callbacks": [TracereelHandler()]})
        except ToolException as error:
            return str(error)

    done.clear()
    with recording() as events:
        first = ask()
    with tracereel.replay(tape_format.parse(events)) as replayed:
        assert ask() == first == "no Lima, 1"
    assert replayed.report.identical


def test_event_has_the_result_as_converted_by_langchain():
    @tool(response_format="content_and_artifact")
    def measure(city: str) -> tuple[str, dict]:
        """Measures."""
        return f"{city} is warm", {"degrees": 21}

    @traced_agent("asker")
    def ask():
        call = {"type": "tool_call", "id": "c1", "name": "measure", "args": {"city": "Lima"}}
        return measure.invoke(call, {"callbacks": [TracereelHandler()]}).artifact

    with recording() as events:
        first = ask()
    (told,) = [event for event in events if event["event_type"] == "agent.tool.called"]
    assert told["result"] == "Lima is warm"
    with tracereel.replay(tape_format.parse(events)):
        assert ask() == first == {"degrees": 21}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_agent_of_langchain_with_its_tools_is_replayed_whole(way, server):
    """Model and tools are served; only the program's own code runs again."""
    ours_openai.instrument()
    try:
        used = TOOLS["function" if way == "invoke" else "coroutine"]()
        used.name = "get_weather"  # the one that the stand-in's model asks for

        @traced_agent("asker")
        async def ask():
            async with openai.DefaultAsyncHttpxClient() as both:
                with openai.DefaultHttpxClient() as one:
                    model = ChatOpenAI(
                        model="m",
                        api_key="k",
                        base_url=f"{server.url}/v1",
                        http_client=one,
                        http_async_client=both,
                    )
                    agent = create_agent(model, [used], name="forecaster")
                    asked = {"messages": [{"role": "user", "content": "Weather in Lima?"}]}
                    config = {"callbacks": [TracereelHandler()]}
                    if way == "invoke":
                        answer = await asyncio.to_thread(agent.invoke, asked, config)
                    else:
                        answer = await agent.ainvoke(asked, config)
            return [message.content for message in answer["messages"]]

        done.clear()
        with recording() as events:
            first = asyncio.run(ask())
        stop(server)
        tape = tape_format.parse(events)
        assert (tape.state, tape.reasons) == ("yes", ())
        assert done == ["Lima"]

        with tracereel.replay(tape) as replayed:
            assert asyncio.run(ask()) == first
        assert replayed.report.identical
        assert replayed.report.served == 3
        assert done == ["Lima"]
    finally:
        ours_openai.uninstrument()
