"""Wrapped clients on tape: recorded against a server, then replayed strictly without it."""

import asyncio
import contextlib

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

import tracereel
from tests.sdk.clients.reading import only_call
from tests.sdk.clients.standin import RATE_LIMITED, StandIn
from tests.support.replay_trial import recording
from tracereel import traced_agent
from tracereel.integrations import anthropic as ours_anthropic
from tracereel.integrations import google as ours_google
from tracereel.integrations import openai as ours_openai
from tracereel.tape import DivergenceError, Override, fork
from tracereel.tape import format as tape_format
from tracereel.testing import EventRecorder

ASKED = [{"role": "user", "content": "What is the weather in Lima?"}]


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


def asks_anthropic(client, stream, question=ASKED):
    return client.messages.create(model="m", max_tokens=9, messages=question, stream=stream)


def asks_chat(client, stream, question=ASKED):
    return client.chat.completions.create(model="m", messages=question, stream=stream)


def asks_responses(client, stream, question=ASKED):
    return client.responses.create(model="m", input=question, stream=stream)


def asks_google(client, stream, question=ASKED):
    models = client.models
    ask = models.generate_content_stream if stream else models.generate_content
    return ask(model="m", contents=question[0]["content"])


def made_google(url):
    return ours_google.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)))


SYNC = {
    "anthropic": lambda url: ours_anthropic.wrap(anthropic.Anthropic(api_key="k", base_url=url)),
    "openai": lambda url: ours_openai.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1")),
    "google": made_google,
}
ASYNC = {
    "anthropic": lambda url: ours_anthropic.wrap(
        anthropic.AsyncAnthropic(api_key="k", base_url=url)
    ),
    "openai": lambda url: ours_openai.wrap(openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
    "google": made_google,
}
WAYS = [
    pytest.param("anthropic", asks_anthropic, id="anthropic"),
    pytest.param("openai", asks_chat, id="chat"),
    pytest.param("openai", asks_responses, id="responses"),
    pytest.param("google", asks_google, id="google"),
]


def plain(answer):
    """Return the data of a client object and its type."""
    # Connection data in Google's response is not part of the result.
    left_out = {"sdk_http_response"}
    return type(answer).__name__, answer.model_dump(mode="json", exclude=left_out)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("provider", "asks"), WAYS)
def test_recorded_response_is_replayed_typed_without_network(provider, asks, stream, server):
    client = SYNC[provider](server.url)

    @traced_agent("asker")
    def ask():
        answer = asks(client, stream)
        return [plain(each) for each in answer] if stream else plain(answer)

    with recording() as events:
        first = ask()
    stop(server)

    with tracereel.replay(tape_format.parse(events)) as replayed:
        assert ask() == first
    assert replayed.report.identical
    assert replayed.report.live == 0


OTHER = {
    "anthropic": {"model": "other", "messages": [{"role": "user", "content": "And in Quito?"}]},
    "chat": {"model": "other", "messages": [{"role": "user", "content": "And in Quito?"}]},
    "responses": {"model": "other", "input": "And in Quito?"},
    "google": {"model": "other", "contents": [{"role": "user", "parts": [{"text": "Quito?"}]}]},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("provider", "asks", "changes"),
    [pytest.param(*way.values, OTHER[way.id], id=way.id) for way in WAYS],
)
def test_a_fork_calls_another_model_with_another_prompt(provider, asks, changes, stream, server):
    client = SYNC[provider](server.url)

    @traced_agent("asker")
    def ask():
        answer = asks(client, stream)
        return len(list(answer)) if stream else plain(answer)

    with recording() as events:
        ask()
    before = dict(server.requests[-1])

    with (
        EventRecorder(),
        fork(tape_format.parse(events), overrides=[Override(1, arguments=changes)]) as forked,
    ):
        assert ask()

    assert forked.report.live == 1
    sent, path = server.requests[-1], server.paths[-1]
    in_path = {"model": "other"} if "/models/other:" in path else {}
    assert {**sent, **in_path} == {**before, **changes}


def test_a_fork_calls_another_model_with_an_async_client(server):
    @traced_agent("asker")
    async def ask():
        async with ASYNC["openai"](server.url) as client:
            answer = await asks_chat(client, stream=True)
            return [plain(each) async for each in answer]

    with recording() as events:
        asyncio.run(ask())

    changes = [Override("openai chat", arguments={"model": "other"})]
    with EventRecorder(), fork(tape_format.parse(events), overrides=changes):
        assert asyncio.run(ask())

    assert server.requests[-1]["model"] == "other"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("provider", "asks"), WAYS)
def test_the_same_for_clients_that_are_awaited(provider, asks, stream, server):
    @traced_agent("asker")
    async def ask():
        client = ASYNC[provider](server.url)
        try:
            answer = await asks(client if provider != "google" else client.aio, stream)
            if not stream:
                return plain(answer)
            return [plain(each) async for each in answer]
        finally:
            if provider == "google":
                await client.aio.aclose()
            else:
                await client.close()

    with recording() as events:
        first = asyncio.run(ask())
    stop(server)

    with tracereel.replay(tape_format.parse(events)) as replayed:
        assert asyncio.run(ask()) == first
    assert replayed.report.identical
    assert replayed.report.live == 0


def test_retries_of_the_client_and_its_errors_come_again(server):
    """A response that asks to wait, and one that refuses permanently."""
    client = SYNC["anthropic"](server.url).with_options(max_retries=1)

    @traced_agent("asker")
    def ask():
        answer = plain(asks_anthropic(client, False))
        try:
            asks_anthropic(client, False, [{"role": "user", "content": "Again?"}])
        except anthropic.RateLimitError as error:
            return answer, error.status_code, str(error)

    with recording() as events:
        server.will(RATE_LIMITED)
        client.messages.create(model="m", max_tokens=9, messages=ASKED)  # no run: on no tape
        server.will(RATE_LIMITED, *[type(RATE_LIMITED)()], RATE_LIMITED, RATE_LIMITED)
        first = ask()
    stop(server)

    tape = tape_format.parse([e for e in events if e["event_type"].startswith("agent.tape")])
    assert first[1] == 429
    with tracereel.replay(tape) as replayed:
        assert ask() == first
    assert replayed.report.identical


def test_a_stream_that_is_left_early_is_left_early_again(server):
    client = SYNC["anthropic"](server.url)

    @traced_agent("asker")
    def ask():
        with client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
            return plain(next(iter(stream)))

    with recording() as events:
        first = ask()
    stop(server)

    with tracereel.replay(tape_format.parse(events)) as replayed:
        assert ask() == first
    assert replayed.report.identical


def test_another_question_is_a_divergence(server):
    client = SYNC["openai"](server.url)

    @traced_agent("asker")
    def ask():
        return plain(asks_chat(client, False, question))

    question = ASKED
    with recording() as events:
        ask()
    stop(server)
    question = [{"role": "user", "content": "What is the wind in Lima?"}]

    replayed = tracereel.replay(tape_format.parse(events))
    with pytest.raises(DivergenceError, match="wind") as caught, replayed:
        ask()
    assert "test_taped.py" in caught.value.divergence.location  # not a line of the client


def test_without_a_tape_nothing_stands_between_the_client_and_its_server(server, events):
    client = SYNC["openai"](server.url)

    asks_chat(client, False)

    assert only_call(events)["llm_tokens_used"] == 150
    assert "send" not in vars(client._client)
