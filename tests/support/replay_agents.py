"""Corpus of small agents of every shape, for recording and replay; tools use `world`.

Responses and delays are random for every seed, so that a replay without the tape would differ. The result
of an agent shows the order in which responses reached it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tests.support.replay_clients import CLIENTS
from tests.support.replay_graphs import GRAPHS
from tests.support.replay_world import (
    BusyError,
    documents,
    flaky,
    instant,
    lookup,
    say,
    search,
    send,
    speak,
    think,
    world,
)
from tracereel import (
    carry,
    current_execution,
    fallback,
    retry,
    traced_agent,
    traced_decision,
    traced_pipeline,
    traced_step,
)
from tracereel.resilience.backoff import fixed_delay
from tracereel.tape import boundary

AGENTS: dict[str, Callable[[], Any]] = {}


def agent(function: Callable[..., Any]) -> Callable[..., Any]:
    wrapped = traced_agent(function.__name__)(function)
    AGENTS[function.__name__] = wrapped
    return wrapped


@agent
def one_call() -> Any:
    return lookup("a")


@agent
def loop_of_calls() -> Any:
    found = []
    for number in range(4):
        found.append(lookup(number)["value"])
        if found[-1] % 3 == 0:
            found.append(lookup(f"more {found[-1]}"))
    return found


@agent
def same_call_again() -> Any:
    return [lookup("same") for _ in range(5)]


@agent
def stream() -> Any:
    return "".join(say("hello"))


@agent
def stream_left_early() -> Any:
    parts = say("hello")
    first = next(parts)
    parts.close()
    return first, lookup(first)


@agent
async def one_task() -> Any:
    return await search("a")


@agent
async def conversation() -> Any:
    messages = [{"role": "user", "content": "hello"}]
    for _ in range(5):
        messages.append({"role": "assistant", "content": await think(messages)})
    return messages


@agent
async def gathered() -> Any:
    return await asyncio.gather(*(search(f"q{n}") for n in range(6)))


@agent
async def gathered_alike() -> Any:
    return await asyncio.gather(*(search("same") for _ in range(6)))


@agent
async def gathered_failures() -> Any:
    return await asyncio.gather(*(flaky(f"q{n}") for n in range(6)), return_exceptions=True)


@agent
async def as_they_come() -> Any:
    found = []
    for each in asyncio.as_completed([search(f"q{n}") for n in range(5)]):
        first = await each
        found.append((first["about"], await search(f"follow {first['about']}")))
    return found


@agent
async def shared_log() -> Any:
    log: list[Any] = []

    async def worker(number: int) -> None:
        for turn in range(3):
            found = await search(f"{number} {turn} {len(log)}")
            log.append((number, turn, found["value"]))

    await asyncio.gather(*(worker(n) for n in range(3)))
    return log


@agent
async def first_wins() -> Any:
    tasks = [asyncio.ensure_future(search(f"route {n}")) for n in range(4)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    winners = sorted(tasks.index(task) for task in done)
    return winners, await search(f"after {winners}")


@agent
async def hedged() -> Any:
    first = asyncio.ensure_future(search("first"))
    try:
        return await asyncio.wait_for(asyncio.shield(first), 0.0015)
    except TimeoutError:
        second = asyncio.ensure_future(search("second"))
        done, rest = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return sorted(str(task.result()) for task in done)


@agent
async def task_group() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(search(f"q{n}")) for n in range(4)]
    return [task.result() for task in tasks]


@agent
async def task_group_that_fails() -> Any:
    said = ["all well"]
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(flaky(f"q{number}"))
    except* BusyError as failed:
        said = sorted(str(error) for error in failed.exceptions)
    return said


@agent
async def time_limit() -> Any:
    found = []
    for number in range(4):
        try:
            async with asyncio.timeout(0.0018):
                found.append(await search(f"q{number}"))
        except TimeoutError:
            found.append(f"{number} was late")
    return found


@agent
async def sleeps_between() -> Any:
    async def slow(number: int) -> Any:
        await asyncio.sleep(0.003 * number)
        return await search(f"q{number}")

    return await asyncio.gather(*(slow(n) for n in range(4)))


@agent
async def producer_and_consumer() -> Any:
    queue: asyncio.Queue[Any] = asyncio.Queue(2)
    seen: list[Any] = []

    async def produce() -> None:
        for number in range(4):
            await queue.put(await search(f"item {number}"))
        await queue.put(None)

    async def consume() -> None:
        while (item := await queue.get()) is not None:
            seen.append((item["value"], await think([{"content": str(item)}])))

    await asyncio.gather(produce(), consume())
    return seen


@agent
async def limited() -> Any:
    limit = asyncio.Semaphore(2)
    order: list[int] = []

    async def one(number: int) -> None:
        async with limit:
            await search(f"q{number}")
            order.append(number)

    await asyncio.gather(*(one(n) for n in range(6)))
    return order


@agent
async def without_waiting() -> Any:
    order: list[Any] = []

    async def one(number: int) -> None:
        order.append(("begin", number))
        order.append((await instant(f"q{number}"))["value"])
        await search(f"q{number}")
        order.append(("end", number))

    await asyncio.gather(*(one(n) for n in range(3)))
    return order


@agent
async def streams_together() -> Any:
    heard: list[Any] = []

    async def listen(number: int) -> None:
        async for part in speak(f"p{number}"):
            heard.append((number, part))  # noqa: PERF401 - one at a time is what is tested

    await asyncio.gather(*(listen(n) for n in range(3)))
    return heard


@agent
async def stream_broken_off() -> Any:
    heard = []
    parts = speak("long")
    async for part in parts:
        heard.append(part)
        if len(heard) == 2:
            break
    await parts.aclose()
    return heard, await search(str(len(heard)))


@retry(attempts=4, on=BusyError, strategy=fixed_delay(0.002))
async def stubborn(query: str) -> Any:
    return await flaky(query)


@agent
async def retries() -> Any:
    try:
        return await stubborn("once more")
    except BusyError as error:
        return f"gave up: {error}, {error.after}"


@agent
async def retries_together() -> Any:
    return await asyncio.gather(*(stubborn(f"q{n}") for n in range(3)), return_exceptions=True)


@traced_agent("reliable")
async def reliable(query: str) -> Any:
    return await search(f"reliable {query}")


@fallback(reliable)
@traced_agent("primary")
async def primary(query: str) -> Any:
    return await flaky(query)


@agent
async def falls_back() -> Any:
    return [await primary(f"q{n}") for n in range(3)]


@agent
async def fails() -> Any:
    await search("a")
    world_says = await flaky("b")
    raise ValueError(f"it ends badly: {world_says['value']}")


@traced_agent("sub")
async def sub(topic: str) -> Any:
    found = await search(topic)
    return await asyncio.gather(search(f"{topic} {found['value']}"), documents(topic))


@agent
async def sub_agents() -> Any:
    return await asyncio.gather(*(sub(f"t{n % 2}") for n in range(4)))


@traced_step("plan")
async def plan(depth: int) -> Any:
    if depth == 0:
        return await search("leaf")
    return await asyncio.gather(plan(depth - 1), plan(depth - 1))


@agent
async def recursive() -> Any:
    return await plan(3)


@traced_pipeline("nested", agents=["sub"])
async def nested() -> Any:
    first = await sub("one")
    with traced_step("between"):
        middle = await think([{"content": str(first)}])
    return await sub(middle)


AGENTS["nested"] = nested


@traced_decision("route", candidates=["left", "right"])
def route(value: int) -> str:
    return "left" if value % 2 else "right"


@agent
async def decides() -> Any:
    found = await search("which way")
    way = route(found["value"])
    return way, await (search("left") if way == "left" else think([{"content": "right"}]))


@agent
async def sends() -> Any:
    found = await search("what")
    return await send(str(found["value"]))


@agent
async def cancelled_inside() -> Any:
    task = asyncio.ensure_future(search("never needed"))
    other = await search("other")
    task.cancel()
    try:
        return "came after all", await task, other
    except asyncio.CancelledError:
        return "cancelled", other


@agent
async def threads_from_tasks() -> Any:
    return await asyncio.gather(*(asyncio.to_thread(lookup, n) for n in range(4)))


@agent
def threads() -> Any:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(carry(lookup), range(6)))


@agent
def threads_as_they_come() -> Any:
    with ThreadPoolExecutor(3) as pool:
        futures = {pool.submit(carry(lookup), n): n for n in range(4)}
        order = [futures[future] for future in as_completed(futures)]
    return sorted(order), lookup(sorted(order))


@traced_agent("worker")
def worker(number: int) -> Any:
    return [lookup(f"{number} {turn}") for turn in range(3)]


@agent
def sub_agents_in_threads() -> Any:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(carry(worker), range(4)))


@agent
async def wrapped_client() -> Any:
    async def post(body: dict[str, Any]) -> Any:
        async def call() -> Any:
            await asyncio.sleep(world.delay())
            return world.answer(body["prompt"])

        return await boundary("client.post", "llm", {"body": body}, call, form="async")

    return await asyncio.gather(*(post({"prompt": n}) for n in range(3)))


@agent
async def notes_confidence() -> Any:
    found = await asyncio.gather(search("a"), search("b"))
    current_execution().set(confidence=0.5)
    return {"set": {each["value"] for each in found}, "pair": tuple(found)}


AGENTS.update(GRAPHS)
AGENTS.update(CLIENTS)


def run(function: Callable[[], Any]) -> Any:
    """Call a sync or async agent; return its result or exception."""
    try:
        result = function()
        return asyncio.run(result) if asyncio.iscoroutine(result) else result
    except Exception as error:
        return f"{type(error).__name__}: {error}"
