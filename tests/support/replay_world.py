"""Tools and models of the replay corpus, with random responses and delays."""

import asyncio
import random
import time
from typing import Any

from tracereel import traced_llm, traced_retrieval, traced_tool


class World:
    """World outside of the agents; counts its calls."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, seed: int, *, failures: bool = True) -> None:
        self.draw = random.Random(seed)
        self.asked = 0
        self.failures = failures

    def delay(self) -> float:
        return self.draw.choice([0.0, 0.0005, 0.001, 0.002, 0.004])

    def answer(self, about: Any) -> dict[str, Any]:
        self.asked += 1
        return {"about": about, "value": self.draw.randrange(10**9)}

    def fails(self, share: float) -> bool:
        return self.failures and self.draw.random() < share


world = World()


class BusyError(Exception):
    """The service was too busy."""

    def __init__(self, message: str, *, after: float) -> None:
        super().__init__(message)
        self.after = after


@traced_tool("search", effect="read")
async def search(query: str) -> dict[str, Any]:
    await asyncio.sleep(world.delay())
    return world.answer(query)


@traced_tool("lookup", effect="read")
def lookup(key: Any) -> dict[str, Any]:
    time.sleep(world.delay() / 4)
    return world.answer(key)


@traced_tool("send", effect="write")
async def send(text: str) -> str:
    await asyncio.sleep(world.delay())
    return f"sent {world.answer(text)['value']}"


@traced_tool("flaky", effect="read")
async def flaky(query: str) -> dict[str, Any]:
    await asyncio.sleep(world.delay())
    found = world.answer(query)
    if world.fails(0.5):
        raise BusyError(f"busy {found['value']}", after=0.01)
    return found


@traced_tool("instant", effect="pure")
async def instant(query: str) -> dict[str, Any]:
    return world.answer(query)


@traced_llm("model-a")
async def think(messages: list[dict[str, str]]) -> str:
    await asyncio.sleep(world.delay())
    return f"thought {world.answer(len(messages))['value']}"


@traced_llm("model-b")
async def speak(prompt: str) -> Any:
    for _ in range(world.draw.randrange(1, 5)):
        await asyncio.sleep(world.delay())
        yield f"{world.answer(prompt)['value']} "


@traced_llm("model-c")
def say(prompt: str) -> Any:
    for number in range(world.draw.randrange(1, 5)):
        yield f"{number}:{world.answer(prompt)['value']}"


@traced_retrieval("documents")
async def documents(query: str) -> list[dict[str, Any]]:
    await asyncio.sleep(world.delay())
    return [world.answer(f"{query} {n}") for n in range(2)]
