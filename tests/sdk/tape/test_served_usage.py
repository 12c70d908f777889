"""Tokens of model calls that a fork serves from its tape."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tracereel import current_execution, traced_agent, traced_llm
from tracereel.tape import fork
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
