"""The order of calls counts only within one task or thread; the size of a pool does not count."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_tool

DELAYS = (0.03, 0.02, 0.01, 0.04, 0.005, 0.015)


@traced_tool("fetch", effect="read")
async def fetch(number: int) -> int:
    await asyncio.sleep(DELAYS[number])
    return number * number


@traced_tool("read", effect="read")
def read(number: int) -> int:
    time.sleep(DELAYS[number])
    return number * number


@traced_agent("crowd")
async def crowd(size: int) -> list[int]:
    slots = asyncio.Semaphore(size)

    async def one(number: int) -> int:
        async with slots:
            return await fetch(number)

    return list(await asyncio.gather(*(one(number) for number in range(6))))


@traced_agent("pool")
def pool(size: int) -> list[int]:
    with ThreadPoolExecutor(size) as workers:
        jobs = [workers.submit(copy_context().run, read, number) for number in range(6)]
        return [job.result() for job in jobs]


@traced_agent("tasks")
async def tasks(order: list[int]) -> list[int]:
    made = {}
    for number in order:
        made[number] = await asyncio.create_task(fetch(number))
    return [made[number] for number in sorted(made)]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("recorded", [2, 6])
def test_another_size_of_a_semaphore_is_the_same(taped: Any, recorded: int, size: int) -> None:
    _, tape = taped(lambda: asyncio.run(crowd(recorded)))
    with tracereel.replay(tape, mode="report") as run:
        asyncio.run(crowd(size))

    assert run.report.verdict == "same", str(run.report)


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("recorded", [2, 6])
def test_another_size_of_a_pool_is_the_same(taped: Any, recorded: int, size: int) -> None:
    _, tape = taped(lambda: pool(recorded))
    with tracereel.replay(tape, mode="report") as run:
        pool(size)

    assert run.report.verdict == "same", str(run.report)


def test_another_order_of_tasks_is_the_same(taped: Any) -> None:
    _, tape = taped(lambda: asyncio.run(tasks([0, 1, 2])))
    with tracereel.replay(tape) as run:
        asyncio.run(tasks([2, 0, 1]))

    assert run.report.verdict == "same", str(run.report)
