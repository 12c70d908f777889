"""Asyncio client that runs the synchronous client in threads."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from tracereel.client.errors import InvalidRequestError
from tracereel.client.models import Step
from tracereel.client.streams import EventStream
from tracereel.client.sync import Client
from tracereel.client.transport import DEFAULT_TIMEOUT

P = ParamSpec("P")
Given = TypeVar("Given")
THREADS: Final = 8
"""Maximum number of concurrent requests; others wait."""
MAX_STREAMS: Final = 32
_OVER: Final = object()


def _in_thread(
    method: Callable[Concatenate[Client, P], Given],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Given]]":
    @functools.wraps(method)
    async def ask(self: "AsyncClient", /, *args: P.args, **options: P.kwargs) -> Given:
        return await self.run(functools.partial(method, self.client, *args, **options))

    return ask


def _page_by_page(
    method: Callable[Concatenate[Client, P], Iterator[Given]],
) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[Given]]":
    @functools.wraps(method)
    async def iterate(
        self: "AsyncClient", /, *args: P.args, **options: P.kwargs
    ) -> AsyncIterator[Given]:
        items = method(self.client, *args, **options)
        while (item := await self.run(functools.partial(next, items, _OVER))) is not _OVER:
            yield item

    return iterate


def _streamed(
    method: Callable[Concatenate[Client, P], EventStream],
) -> "Callable[Concatenate[AsyncClient, P], AsyncEventStream]":
    @functools.wraps(method)
    def follow(self: "AsyncClient", /, *args: P.args, **options: P.kwargs) -> AsyncEventStream:
        return AsyncEventStream(method(self.client, *args, **options), self.streams)

    return follow


class AsyncEventStream:
    """`EventStream` for `async for`; close it, or use it in an `async with` block."""

    def __init__(self, stream: EventStream, slots: threading.BoundedSemaphore) -> None:
        self.stream = stream
        self._slots = slots

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration."""
        self.stream.close()

    async def __aiter__(self) -> AsyncIterator[Step]:
        """Yield steps; each stream uses a thread, up to `MAX_STREAMS`."""
        if not self._slots.acquire(blocking=False):
            raise InvalidRequestError(
                f"{MAX_STREAMS} streams are open already; close one, or make another client"
            )
        thread = ThreadPoolExecutor(1, thread_name_prefix="tracereel-stream")
        try:
            loop, steps = asyncio.get_running_loop(), iter(self.stream)
            while (step := await loop.run_in_executor(thread, next, steps, _OVER)) is not _OVER:
                yield step  # type: ignore[misc]
        finally:
            self.stream.close()  # wakes up the waiting thread
            thread.shutdown(wait=False)
            self._slots.release()


class AsyncClient:
    """Asyncio client; close it, or use it in an `async with` block."""

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.client = Client(endpoint, api_key, timeout)
        self.endpoint = self.client.endpoint
        self.streams = threading.BoundedSemaphore(MAX_STREAMS)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tracereel-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the threads; pending requests finish by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], Given]) -> Given:
        """Run a blocking request in one of the client's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    get = _in_thread(Client.get)
    replay = _in_thread(Client.replay)
    replay_stream = _streamed(Client.replay_stream)
    steps = _page_by_page(Client.steps)
    state = _in_thread(Client.state)
    diff = _in_thread(Client.diff)
    trace = _in_thread(Client.trace)
    step_alone = _in_thread(Client.step_alone)
    content = _in_thread(Client.content)
    tape = _in_thread(Client.tape)
    replayable = _in_thread(Client.replayable)
    completeness = _in_thread(Client.completeness)
    traces = _in_thread(Client.traces)
    find = _page_by_page(Client.find)
    asked = _in_thread(Client.asked)
    sessions = _in_thread(Client.sessions)
    find_sessions = _page_by_page(Client.find_sessions)
    session = _in_thread(Client.session)
    agents = _in_thread(Client.agents)
    agent = _in_thread(Client.agent)
    tail = _streamed(Client.tail)
    score = _in_thread(Client.score)
    score_session = _in_thread(Client.score_session)
    scores = _in_thread(Client.scores)
    all_scores = _page_by_page(Client.all_scores)
    score_averages = _in_thread(Client.score_averages)
    delete_trace = _in_thread(Client.delete_trace)
    delete_user = _in_thread(Client.delete_user)
    export = _page_by_page(Client.export)
    export_to = _in_thread(Client.export_to)
    sql = _in_thread(Client.sql)
