"""Agents of the replay corpus that call models through wrapped provider clients over HTTP.

During recording a local server responds with random content and delays, and sometimes with an error that
the client retries. During the replay there is no server.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.clients import standin as whole
from tests.sdk.clients.standin import RATE_LIMITED, Reply, StandIn
from tests.sdk.providers import samples
from tests.support.replay_world import world
from tracereel import traced_agent

CLIENTS: dict[str, Callable[[], Any]] = {}
NOBODY = "http://127.0.0.1:9"


def agent(function: Callable[..., Any]) -> Callable[..., Any]:
    wrapped = traced_agent(function.__name__)(function)
    CLIENTS[function.__name__] = wrapped
    return wrapped


class Models(StandIn):
    """Server whose responses and delays are drawn by the world."""

    def next_reply(self, path: str, request: Any) -> Reply:
        super().next_reply(path, request)
        if world.fails(0.15):
            return RATE_LIMITED
        return Reply(answer=_answer(path, request), pause=lambda: time.sleep(world.delay() / 2))


def _answer(path: str, request: Any) -> dict[str, Any]:
    value = world.answer(path)["value"]
    said = f"the answer is {value}, as ever"
    if path.endswith("/messages"):
        text = [{"type": "text", "text": said}]
        return {**whole.messages(request), "content": text, "stop_reason": "end_turn"}
    if path.endswith("/chat/completions"):
        answer = whole.chat(request)
        message = answer["choices"][0]["message"]
        if message["content"] is None:
            message["tool_calls"] = [_tool_call(value, number) for number in range(1 + value % 3)]
        else:
            message["content"] = said
        return answer
    candidate = {"content": {"role": "model", "parts": [{"text": said}]}, "finishReason": "STOP"}
    return {**samples.GOOGLE, "candidates": [candidate]}


def _tool_call(value: int, number: int) -> dict[str, Any]:
    arguments = json.dumps({"place": f"place {value % 100} {number}"})
    return {
        "id": f"call_{value}_{number}",
        "type": "function",
        "function": {"name": "weather", "arguments": arguments},
    }


url = NOBODY


@contextmanager
def serving() -> Iterator[None]:
    """Run the server for the length of the block."""
    global url
    server = Models()
    url = server.url
    try:
        yield
    finally:
        url = NOBODY
        server.reset()
        server.shutdown()
        server.server_close()


@contextmanager
def anthropic_client() -> Iterator[Any]:
    import anthropic

    from tracereel.integrations.anthropic import wrap

    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=8) as client:
        yield wrap(client)


@asynccontextmanager
async def openai_client() -> AsyncIterator[Any]:
    import openai

    from tracereel.integrations.openai import wrap

    async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=8) as client:
        yield wrap(client)


def google_client() -> Any:
    from google import genai
    from google.genai import types

    from tracereel.integrations.google import wrap

    again = types.HttpRetryOptions(attempts=8, initial_delay=0.01, max_delay=0.02)
    options = types.HttpOptions(base_url=url, retry_options=again)
    return wrap(genai.Client(api_key="k", http_options=options))


def asked(question: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": str(question)}]


@agent
def client_anthropic() -> Any:
    """Conversation with a plain client."""
    messages = asked("why")
    with anthropic_client() as client:
        for turn in range(3):
            answer = client.messages.create(model="m", max_tokens=9, messages=messages)
            messages += [{"role": "assistant", "content": answer.content[0].text}]
            messages += asked(f"and then {turn}")
    return messages


@agent
def client_anthropic_stream() -> Any:
    """Two streams, one of them abandoned."""
    with anthropic_client() as client:
        whole = client.messages.create(model="m", max_tokens=9, messages=asked("why"), stream=True)
        heard = [event.model_dump() for event in whole]
        with client.messages.stream(model="m", max_tokens=9, messages=asked(len(heard))) as stream:
            return heard, next(iter(stream.text_stream))


@agent
async def client_openai_together() -> Any:
    """Concurrent requests, noted in the order of their responses."""
    log: list[Any] = []
    async with openai_client() as client:

        async def ask(number: int) -> None:
            for turn in range(2):
                answer = await client.chat.completions.create(
                    model="m", messages=asked(f"{number} {turn} {len(log)}")
                )
                log.append((number, answer.choices[0].message.content))

        await asyncio.gather(*(ask(number) for number in range(3)))
    return log


@agent
async def client_openai_streams() -> Any:
    """Concurrent streams, read chunk by chunk."""
    heard: list[Any] = []
    async with openai_client() as client:

        async def listen(number: int) -> None:
            stream = await client.chat.completions.create(
                model="m", messages=asked(number), stream=True
            )
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    heard.append((number, chunk.choices[0].delta.content))  # noqa: PERF401 - one at a time

        await asyncio.gather(*(listen(number) for number in range(3)))
    return heard


@agent
async def client_openai_race() -> Any:
    """The first response wins, the other requests are cancelled, and one more follows."""
    async with openai_client() as client:

        async def ask(question: Any) -> Any:
            answer = await client.chat.completions.create(model="m", messages=asked(question))
            return answer.choices[0].message.content

        tasks = [asyncio.ensure_future(ask(number)) for number in range(3)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        winners = sorted(tasks.index(task) for task in done)
        return winners, await ask(f"after {winners}")


@agent
def client_google() -> Any:
    """A response, and a stream that depends on it."""
    client = google_client()
    try:
        first = client.models.generate_content(model="m", contents="why").text
        stream = client.models.generate_content_stream(model="m", contents=first)
        return first, [each.text for each in stream]
    finally:
        client.close()


@agent
async def client_google_together() -> Any:
    """The asynchronous client, several requests at once."""
    client = google_client()
    log: list[Any] = []

    async def ask(number: int) -> None:
        answer = await client.aio.models.generate_content(model="m", contents=f"why {number}")
        log.append((number, answer.text))

    try:
        await asyncio.gather(*(ask(number) for number in range(3)))
    finally:
        await client.aio.aclose()
        client.close()
    return log


def _weather() -> tuple[Any, Any]:
    """Return a LangChain tool in both forms; it queries the world."""
    from langchain_core.tools import StructuredTool

    def weather(place: str) -> str:
        """The weather of a place."""
        time.sleep(world.delay() / 4)
        return f"{world.answer(place)['value']} degrees in {place}"

    async def weather_async(place: str) -> str:
        """The weather of a place."""
        await asyncio.sleep(world.delay())
        return f"{world.answer(place)['value']} degrees in {place}"

    plain = StructuredTool.from_function(weather)
    awaited = StructuredTool.from_function(
        coroutine=weather_async, name="weather", description="The weather of a place."
    )
    return plain, awaited


@asynccontextmanager
async def langchain_agent(tool: Any) -> AsyncIterator[Any]:
    """Agent with a model of OpenAI's instrumented client, and a tool."""
    import openai
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from tracereel.integrations.openai import instrument, uninstrument

    instrument()
    try:
        async with openai.DefaultAsyncHttpxClient() as awaited:
            with openai.DefaultHttpxClient() as plain:
                model = ChatOpenAI(
                    model="m",
                    api_key="k",  # type: ignore[arg-type]
                    base_url=f"{url}/v1",
                    max_retries=8,
                    http_client=plain,
                    http_async_client=awaited,
                )
                yield create_agent(model, [tool], name="forecaster")
    finally:
        uninstrument()


def _said(state: Any) -> list[Any]:
    return [(type(message).__name__, message.content) for message in state["messages"]]


@agent
async def client_langchain_tools() -> Any:
    """Model that requests tools, which run as tasks, until it responds."""
    from tracereel.integrations.langchain import TracereelHandler

    async with langchain_agent(_weather()[1]) as forecaster:
        config = {"callbacks": [TracereelHandler()]}
        return _said(await forecaster.ainvoke({"messages": asked("weather?")}, config))


@agent
async def client_langchain_threads() -> Any:
    """The same with plain functions, which LangChain runs in threads."""
    from tracereel.integrations.langchain import TracereelHandler

    async with langchain_agent(_weather()[0]) as forecaster:
        config = {"callbacks": [TracereelHandler()]}
        given = {"messages": asked("weather?")}
        return _said(await asyncio.to_thread(forecaster.invoke, given, config))
