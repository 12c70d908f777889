"""Tokens of model calls that a fork serves from its tape, and of those inside of served calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest

from tracereel import (
    current_execution,
    traced_agent,
    traced_llm,
    traced_retrieval,
    traced_step,
    traced_tool,
)
from tracereel.integrations.openai import wrap
from tracereel.tape import TapeError, fork
from tracereel.tape import format as tape_format
from tracereel.tape.inner_usage import MAX_USED
from tracereel.testing import EventRecorder

NOTED = {"llm_prompt_tokens": 12, "llm_completion_tokens": 4, "llm_cost_usd": 0.25}


@traced_llm("m")
def asks() -> str:
    current_execution().set(**NOTED)
    return "yes"


@traced_llm("m")
async def asks_async() -> str:
    current_execution().set(**NOTED)
    return "yes"


@traced_llm("m")
def streams() -> Iterator[str]:
    yield "y"
    current_execution().set(**NOTED)
    yield "es"


@traced_llm("m")
async def streams_async() -> AsyncIterator[str]:
    yield "y"
    current_execution().set(**NOTED)


@traced_llm("m")
def fails() -> str:
    current_execution().set(**NOTED)
    raise ValueError("no")


async def read(stream: AsyncIterator[str]) -> list[str]:
    return [item async for item in stream]


def caught() -> None:
    with pytest.raises(ValueError, match="no"):
        fails()


WAYS = {
    "sync": asks,
    "async": lambda: asyncio.run(asks_async()),
    "stream": lambda: list(streams()),
    "async stream": lambda: asyncio.run(read(streams_async())),
    "failure": caught,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_served_call_has_its_tokens_in_the_branch(taped: Any, way: str) -> None:
    @traced_agent("a")
    def agent() -> None:
        WAYS[way]()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=9) as run:
        agent()

    assert (run.report.served, run.report.live) == (1, 0)
    (call,) = branch.get_events("agent.llm.called")
    assert {name: call[name] for name in NOTED} == NOTED
    (done,) = branch.get_events("agent.execution.completed")
    assert (done["llm_tokens_used"], done["llm_cost_usd"]) == (16, 0.25)


def test_a_live_call_of_a_branch_has_its_own_tokens(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> None:
        asks()
        asks()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=2) as run:
        agent()

    assert (run.report.served, run.report.live) == (1, 1)
    (done,) = branch.get_events("agent.execution.completed")
    assert done["llm_tokens_used"] == 32


def fetches(how: str) -> Any:
    """Return a tool of this form with a model call in it."""

    def inside() -> str:
        with traced_step("prepare"):
            current_execution().add_usage(prompt_tokens=3, cost_usd=0.5)
        return asks()

    @traced_tool("t")
    def tool() -> str:
        return inside()

    @traced_tool("t")
    async def tool_async() -> str:
        return inside()

    @traced_tool("t")
    def tool_stream() -> Iterator[str]:
        yield inside()

    @traced_retrieval("t")
    def retrieval() -> list[str]:
        return [inside()]

    @traced_tool("t")
    def nested() -> str:
        return tool()

    @traced_tool("t")
    def with_agent() -> str:
        with traced_agent("inner"):
            return inside()

    return {
        "sync": tool,
        "async": lambda: asyncio.run(tool_async()),
        "stream": lambda: list(tool_stream()),
        "retrieval": retrieval,
        "nested": nested,
        "with an agent": with_agent,
    }[how]


@pytest.mark.parametrize("how", ["sync", "async", "stream", "retrieval", "nested", "with an agent"])
def test_tokens_inside_of_a_served_call_are_in_the_branch(taped: Any, how: str) -> None:
    @traced_agent("a")
    def agent() -> None:
        fetches(how)()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=9) as run:
        agent()

    assert (run.report.served, run.report.live) == (1, 0)
    (call,) = branch.get_events("agent.llm.called")
    assert {name: call[name] for name in NOTED} == NOTED
    assert call["llm_model"] == "m"
    outermost = next(
        each
        for each in branch.get_events()
        if each["event_type"] in ("agent.tool.called", "agent.retrieval.completed")
    )
    assert call["parent_span_id"] == outermost["span_id"]
    done = branch.get_events("agent.execution.completed")[-1]
    assert done["agent_name"] == "a"
    assert (done["llm_tokens_used"], done["llm_cost_usd"]) == (19, 0.75)


def test_tokens_set_inside_of_a_served_tool_are_those_of_the_agent(taped: Any) -> None:
    @traced_tool("t")
    def tool() -> None:
        current_execution().set(llm_tokens_used=7, llm_cost_usd=0.125)

    @traced_agent("a")
    def agent() -> None:
        tool()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=9):
        agent()

    (done,) = branch.get_events("agent.execution.completed")
    assert (done["llm_tokens_used"], done["llm_cost_usd"]) == (7, 0.125)


def test_tokens_of_a_client_inside_of_a_served_tool_are_in_the_branch(taped: Any) -> None:
    reply = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    }
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=reply)))
    client = wrap(openai.OpenAI(api_key="k", http_client=http))

    @traced_tool("t")
    def tool() -> str | None:
        message = {"role": "user", "content": "q"}
        answer = client.chat.completions.create(model="gpt-4o", messages=[message])  # type: ignore[list-item]
        return answer.choices[0].message.content

    @traced_agent("a")
    def agent() -> None:
        tool()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=9) as run:
        agent()

    assert (run.report.served, run.report.live) == (1, 0)
    (call,) = branch.get_events("agent.llm.called")
    assert (call["llm_provider"], call["llm_model"]) == ("openai", "gpt-4o-2024-08-06")
    assert (call["llm_model_requested"], call["operation"]) == ("gpt-4o", "chat")
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (9, 2)


def test_many_model_calls_in_a_served_tool_keep_their_sum(taped: Any) -> None:
    @traced_tool("t")
    def tool() -> None:
        for _ in range(300):
            asks()

    @traced_agent("a")
    def agent() -> None:
        tool()

    _, tape = taped(agent)
    with EventRecorder() as branch, fork(tape, at=9):
        agent()

    assert len(branch.get_events("agent.llm.called")) == MAX_USED
    (done,) = branch.get_events("agent.execution.completed")
    assert (done["llm_tokens_used"], done["llm_cost_usd"]) == (300 * 16, 75.0)


def test_what_a_hostile_tape_says_was_used_is_checked() -> None:
    lines = [
        {"r": "open", "n": 1, "p": 0, "k": "tool", "name": "t", "c": "sync", "t": 0},
        {"r": "end", "n": 1, "q": 1, "t": 1, "how": "returned", "m": [{"usage": "all"}]},
    ]
    with pytest.raises(TapeError, match="damaged"):
        tape_format.parse([{"tape_id": "x", "part": 0, "records": lines}])


def test_a_branch_of_a_branch_has_the_tokens_too(taped: Any) -> None:
    tool = fetches("sync")

    @traced_agent("a")
    def agent() -> None:
        tool()

    _, tape = taped(agent)
    with EventRecorder() as first, fork(tape, at=9):
        agent()
    again = tape_format.parse(first.get_events("agent.tape.recorded"))
    with EventRecorder() as branch, fork(again, at=9) as run:
        agent()

    assert (run.report.served, run.report.live) == (1, 0)
    (done,) = branch.get_events("agent.execution.completed")
    assert done["llm_tokens_used"] == 19
