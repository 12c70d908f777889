"""OpenAI's and Azure's real clients against a stand-in: recorded events, unchanged behaviour."""

import asyncio
import gc
import json

import openai
import pytest
from pydantic import BaseModel

from tests.sdk.clients.reading import LLM, MESSAGES, RETRY, of_the_client, only_call, told
from tests.sdk.clients.standin import BROKEN, RATE_LIMITED, Reply, error
from tests.sdk.providers import samples
from tracereel import traced_agent
from tracereel.integrations.openai import instrument, uninstrument, unwrap, wrap

CHAT = {"model": "gpt-test", "messages": [{"role": "user", "content": "Weather in Lima?"}]}
RESPONSE = {"model": "gpt-test", "input": "Weather in Lima?"}
SERVED = "gpt-4o-mini-2024-07-18"
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


class Weather(BaseModel):
    city: str


@pytest.fixture
def client(standin):
    with openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1") as made:
        yield wrap(made)


def in_a_loop(standin, work):
    async def run():
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{standin.url}/v1") as made:
            return await work(wrap(made))

    return asyncio.run(run())


def test_a_chat_completion_is_a_call_of_a_model(client, events, registry):
    answer = client.chat.completions.create(
        **CHAT, tools=TOOLS, temperature=0.2, max_completion_tokens=64
    )

    assert type(answer) is openai.types.chat.ChatCompletion
    call = only_call(events)
    assert (call["llm_provider"], call["llm_model"]) == ("openai", SERVED)
    assert call["llm_model_requested"] == "gpt-test"
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (120, 30)
    assert (call["llm_cached_tokens"], call["llm_reasoning_tokens"]) == (40, 8)
    assert (call["finish_reason"], call["tool_call_ids"]) == ("tool_calls", ["call_1"])
    assert (call["temperature"], call["max_tokens"], call["was_streamed"]) == (0.2, 64, False)
    assert told(events) == ["tool_request"]
    left = registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "openai"})
    assert left == call["llm_tokens_remaining"] == 1234


def test_a_response_is_a_call_of_a_model(client, events):
    answer = client.responses.create(**RESPONSE, instructions="Be brief.", max_output_tokens=50)

    assert answer.output_text == "It is sunny in Lima."
    call = only_call(events)
    assert (call["llm_tokens_used"], call["finish_reason"]) == (150, "completed")
    assert call["input_messages"] == [
        {"role": "system", "content": "Be brief."},
        "Weather in Lima?",
    ]
    assert call["max_tokens"] == 50
    assert told(events) == ["assistant_message"]


def test_embeddings_are_calls_without_messages(client, events):
    answer = client.embeddings.create(model="embed", input="Lima", encoding_format="float")

    assert answer.data[0].embedding == [0.1, 0.2, 0.3]
    call = only_call(events)
    assert (call["operation"], call["llm_prompt_tokens"]) == ("embeddings", 7)
    assert call["llm_model"] == "text-embedding-3-small"
    assert told(events) == []


@pytest.mark.parametrize(
    "way",
    ["create", "helper", "raw_lines", "raw_response", "async", "ahelper"],
)
def test_a_streamed_chat_gives_the_same_call_as_the_whole_answer(way, client, standin, events):
    standin.will(Reply(answer=samples.OPENAI), Reply(answer=samples.OPENAI))
    client.chat.completions.create(**CHAT)
    whole = only_call(events)
    messages = [event.get("content") for event in events.get_events(MESSAGES)]
    events.clear()

    if way == "create":
        chunks = list(client.chat.completions.create(**CHAT, stream=True))
        assert type(chunks[0]) is openai.types.chat.ChatCompletionChunk
    elif way == "helper":
        with client.chat.completions.stream(**CHAT) as stream:
            for _ in stream:
                pass
            assert stream.get_final_completion().choices[0].message.content == "Let me look."
    elif way == "raw_lines":
        asked = client.chat.completions.with_streaming_response.create(**CHAT, stream=True)
        with asked as response:
            assert "data: [DONE]" in list(response.iter_lines())
    elif way == "raw_response":
        raw = client.chat.completions.with_raw_response.create(**CHAT, stream=True)
        assert raw.headers["x-request-id"] == "req_openai"
        assert list(raw.parse())
    elif way == "async":

        async def work(client):
            stream = await client.chat.completions.create(**CHAT, stream=True)
            return [chunk async for chunk in stream]

        assert in_a_loop(standin, work)
    else:

        async def work(client):
            async with client.chat.completions.stream(**CHAT) as stream:
                return [event.type async for event in stream]

        assert "content.delta" in in_a_loop(standin, work)

    streamed = only_call(events)
    assert streamed["was_streamed"] is True
    assert streamed["time_to_first_token_ms"] <= streamed["duration_ms"]
    assert of_the_client(streamed) == of_the_client(whole)
    assert [event.get("content") for event in events.get_events(MESSAGES)] == messages


@pytest.mark.parametrize("way", ["create", "helper", "async"])
def test_a_streamed_response_gives_the_same_call_as_the_whole_one(way, client, standin, events):
    standin.will(Reply(answer=samples.RESPONSES), Reply(answer=samples.RESPONSES))
    client.responses.create(**RESPONSE)
    whole = only_call(events)
    events.clear()

    if way == "create":
        assert list(client.responses.create(**RESPONSE, stream=True))
    elif way == "helper":
        with client.responses.stream(**RESPONSE) as stream:
            for _ in stream:
                pass
    else:

        async def work(client):
            return [each async for each in await client.responses.create(**RESPONSE, stream=True)]

        assert in_a_loop(standin, work)

    assert of_the_client(only_call(events)) == of_the_client(whole)


def test_azure_calls_are_recorded_with_their_own_provider_name(standin, events):
    with openai.AzureOpenAI(
        api_key="k", azure_endpoint=standin.url, api_version="2024-10-21"
    ) as made:
        client = wrap(made)
        client.chat.completions.create(**CHAT)
        list(client.chat.completions.create(**CHAT, stream=True))
        client.with_options(max_retries=0).chat.completions.create(**CHAT)

    assert "/openai/deployments/gpt-test/chat/completions" in standin.paths[0]
    calls = events.get_events(LLM)
    assert [call["llm_provider"] for call in calls] == ["azure_openai"] * 3
    assert [event["llm_provider"] for event in events.get_events(MESSAGES)] == ["azure_openai"] * 3


def test_custom_openai_servers_have_the_given_provider_name(standin, events):
    answer = {**samples.OPENAI, "usage": {**samples.OPENAI["usage"], "cost": 0.0125}}
    standin.will(Reply(answer=answer))
    with openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1") as made:
        wrap(made, provider="openrouter").chat.completions.create(**CHAT)

    call = only_call(events)
    assert (call["llm_provider"], call["llm_cost_usd"]) == ("openrouter", 0.0125)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_retries_of_the_client_are_attempts(kind, client, standin, events):
    standin.will(RATE_LIMITED, BROKEN)

    @traced_agent("patient")
    def ask():
        if kind == "sync":
            client.chat.completions.create(**CHAT)
        else:
            in_a_loop(standin, lambda client: client.chat.completions.create(**CHAT))

    ask()

    first, second = events.get_events(RETRY)
    assert (first["retry_reason"], first["delay_seconds"]) == ("rate_limited", 0.01)
    assert (second["retry_reason"], second["original_error"]) == (
        "error",
        "500 Internal Server Error",
    )
    call = only_call(events)
    assert (call["status"], call["attempt"], call["retry_count"]) == ("success", 3, 2)
    assert [each["parent_span_id"] for each in (first, second)] == [call["span_id"]] * 2


@pytest.mark.parametrize("trouble", ["drop", "timeout"])
def test_attempts_without_a_response_have_a_reason(trouble, client, standin, events, monkeypatch):
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    if trouble == "drop":
        standin.will(Reply(drop=True))
        client.chat.completions.create(**CHAT)
        (retry,) = events.get_events(RETRY)
        assert (retry["retry_reason"], retry["retry_strategy"]) == ("error", "exponential_backoff")
    else:
        standin.will(Reply(holds=True), Reply(holds=True))
        hurried = client.with_options(timeout=0.05, max_retries=1)
        with pytest.raises(openai.APITimeoutError):
            hurried.chat.completions.create(**CHAT)
        (retry,) = events.get_events(RETRY)
        assert retry["retry_reason"] == "timeout"
        assert only_call(events)["error_category"] == "transient"


def test_error_is_propagated_unchanged_and_recorded(client, standin, events):
    standin.will(error(401, "who are you", "invalid_api_key"))

    with pytest.raises(openai.AuthenticationError, match="who are you") as raised:
        client.responses.create(**RESPONSE)

    assert raised.value.code == "invalid_api_key"
    call = only_call(events)
    assert (call["status"], call["error_code"]) == ("failed", "invalid_api_key")


@pytest.mark.parametrize("way", ["break", "close", "async"])
def test_a_stream_left_midway_is_cancelled(way, client, standin, events):
    if way == "break":
        for chunk in client.chat.completions.create(**CHAT, stream=True):
            if chunk.choices[0].delta.content:
                break
    elif way == "close":
        with client.chat.completions.create(**CHAT, stream=True) as stream:
            next(stream)
    else:

        async def work(client):
            async with await client.chat.completions.create(**CHAT, stream=True) as stream:
                async for _ in stream:
                    break

        in_a_loop(standin, work)
    gc.collect()

    call = only_call(events)
    assert (call["status"], call["stop_reason"]) == ("cancelled", "user_cancelled")


def test_a_cancelled_task_is_a_cancelled_call(standin, events):
    async def work(client):
        task = asyncio.create_task(client.chat.completions.create(**CHAT))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_a_loop(standin, work)

    assert only_call(events)["status"] == "cancelled"


def test_a_connection_cut_within_a_stream_is_a_failure(client, standin, events):
    standin.will(Reply(cut_after=2))

    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|chunked"):
        list(client.chat.completions.create(**CHAT, stream=True))

    assert only_call(events)["status"] == "failed"


def test_an_error_in_the_midst_of_a_stream_is_the_clients_own(client, standin, events):
    trouble = {"error": {"message": "the server had an error", "type": "server_error"}}
    standin.will(Reply(frames=[b"data: %s\n\n" % json.dumps(trouble).encode()]))

    with pytest.raises(openai.APIError, match="the server had an error"):
        list(client.chat.completions.create(**CHAT, stream=True))

    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "APIError")


def test_invalid_json_frames_fail_as_without_wrapping(client, standin, events):
    standin.will(Reply(frames=[b"data: {nonsense\n\n"]))

    with pytest.raises(ValueError, match="Expecting"):
        list(client.chat.completions.create(**CHAT, stream=True))

    assert only_call(events)["status"] == "failed"


def test_parsed_answers_and_raw_ones_are_recorded(client, standin, events):
    said = {**samples.OPENAI, "choices": [dict(samples.OPENAI["choices"][0])]}
    said["choices"][0] |= {"message": {"role": "assistant", "content": '{"city": "Lima"}'}}
    said["choices"][0]["finish_reason"] = "stop"
    standin.will(Reply(answer=said))

    parsed = client.chat.completions.parse(**CHAT, response_format=Weather)
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    with client.chat.completions.with_streaming_response.create(**CHAT) as late:
        assert len(events.get_events(LLM)) == 2
        late.json()

    assert parsed.choices[0].message.parsed == Weather(city="Lima")
    assert raw.parse().model == SERVED
    assert [call["status"] for call in events.get_events(LLM)] == ["success"] * 3


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_tool_results_are_matched_to_their_call(api, client, events):
    if api == "chat":
        message = client.chat.completions.create(**CHAT, tools=TOOLS).choices[0].message
        result = {"role": "tool", "tool_call_id": "call_1", "content": "24 degrees"}
        events.clear()
        client.chat.completions.create(
            **CHAT | {"messages": [*CHAT["messages"], message, result]}, tools=TOOLS
        )
    else:
        tools = [{"type": "function", "name": "get_weather", "parameters": {}, "strict": True}]
        asked = client.responses.create(**RESPONSE, tools=tools).output
        result = {"type": "function_call_output", "call_id": "call_1", "output": "24 degrees"}
        events.clear()
        client.responses.create(**RESPONSE | {"input": [*asked, result]}, tools=tools)

    response = events.get_events(MESSAGES)[0]
    assert response["message_type"] == "tool_response"
    assert (response["tool_call_id"], response["tool_name"]) == ("call_1", "get_weather")
    assert response["content"] == "24 degrees"


def test_every_client_is_recorded_between_instrument_and_uninstrument(standin, events):
    made = openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1")
    request, sleep = openai.OpenAI.request, openai.AsyncOpenAI._sleep_for_retry
    instrument()
    try:
        standin.will(RATE_LIMITED)
        made.with_options(max_retries=1).chat.completions.create(**CHAT)
        with openai.AzureOpenAI(
            api_key="k", azure_endpoint=standin.url, api_version="2024-10-21"
        ) as azure:
            azure.chat.completions.create(**CHAT)
    finally:
        uninstrument()
    made.chat.completions.create(**CHAT)

    assert (openai.OpenAI.request, openai.AsyncOpenAI._sleep_for_retry) == (request, sleep)
    providers = [call["llm_provider"] for call in events.get_events(LLM)]
    assert providers == ["openai", "azure_openai"]
    assert len(events.get_events(RETRY)) == 1
    made.close()


def test_wrap_returns_the_same_client_and_can_be_undone(client, events):
    assert type(client) is openai.OpenAI
    assert isinstance(client.with_options(timeout=3), openai.OpenAI)

    unwrap(client).chat.completions.create(**CHAT)

    assert list(events) == []


def test_concurrent_calls_belong_to_their_own_agents(standin, events):
    async def work(client):
        @traced_agent("one of many")
        async def ask(number):
            body = {**CHAT, "messages": [{"role": "user", "content": str(number)}]}
            stream = await client.chat.completions.create(**body, stream=True)
            return [chunk async for chunk in stream]

        await asyncio.gather(*(ask(number) for number in range(8)))

    in_a_loop(standin, work)

    calls = events.get_events(LLM)
    agents = {each["span_id"]: each for each in events.get_events("agent.execution.completed")}
    assert sorted(call["input_messages"][0]["content"] for call in calls) == list("01234567")
    assert {call["parent_span_id"] for call in calls} == set(agents)


@pytest.mark.parametrize("wrong", [None, "client", openai])
def test_wrapping_an_unsupported_object_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"openai\.OpenAI"):
        wrap(wrong)
