"""Google's real client against a stand-in: recorded events and unchanged behaviour."""

import asyncio

import pytest
from google import genai
from google.genai import errors, types

from tests.sdk.clients.reading import LLM, MESSAGES, RETRY, of_the_client, only_call, told
from tests.sdk.clients.standin import Reply
from tests.sdk.providers import samples
from tracereel import traced_agent
from tracereel.integrations.google import instrument, uninstrument, unwrap, wrap
from tracereel.testing import EventRecorder

ASK = {"model": "gemini-test", "contents": "Will it rain?"}
SERVED = "gemini-2.5-pro"
BUSY = Reply(
    status=429, body=b'{"error": {"code": 429, "message": "slow down", "status": "EXHAUSTED"}}'
)

JSON = {"content-type": "application/json"}


@pytest.fixture
def client(standin):
    return make(standin)


def make(standin, **options):
    http = types.HttpOptions(base_url=standin.url, **options)
    return wrap(genai.Client(api_key="k", http_options=http))


def patient(standin):
    again = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02, jitter=0.0)
    return make(standin, retry_options=again)


def test_generated_content_is_a_call_of_a_model(client, events):
    config = types.GenerateContentConfig(
        temperature=0.3, max_output_tokens=70, system_instruction="Be brief."
    )
    answer = client.models.generate_content(**ASK, config=config)

    assert type(answer) is types.GenerateContentResponse
    call = only_call(events)
    assert (call["llm_provider"], call["llm_model"]) == ("google", SERVED)
    assert (call["llm_model_requested"], call["operation"]) == ("gemini-test", "generate_content")
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (28, 16)
    assert (call["llm_cached_tokens"], call["llm_reasoning_tokens"]) == (5, 6)
    assert (call["temperature"], call["max_tokens"]) == (0.3, 70)
    assert call["finish_reason"] == "STOP"
    assert len(call["input_messages"]) == 2
    assert told(events) == ["thinking", "assistant_message", "tool_request"]


@pytest.mark.parametrize("way", ["sync", "async", "chat"])
def test_a_stream_gives_the_same_call_as_the_whole_answer(way, client, events):
    client.models.generate_content(**ASK)
    whole = only_call(events)
    messages = [event.get("content") for event in events.get_events(MESSAGES)]
    events.clear()

    if way == "sync":
        assert list(client.models.generate_content_stream(**ASK))
    elif way == "chat":
        chat = client.chats.create(model=ASK["model"])
        assert list(chat.send_message_stream(ASK["contents"]))
    else:

        async def work():
            stream = await client.aio.models.generate_content_stream(**ASK)
            chunks = [chunk async for chunk in stream]
            await client.aio.aclose()
            return chunks

        assert asyncio.run(work())

    streamed = only_call(events)
    assert streamed["was_streamed"] is True
    assert streamed["time_to_first_token_ms"] <= streamed["duration_ms"]
    assert of_the_client(streamed) == of_the_client(whole)
    assert [event.get("content") for event in events.get_events(MESSAGES)] == messages


def test_awaited_content_and_embeddings_are_recorded(client, events):
    async def work():
        await client.aio.models.generate_content(**ASK)
        await client.aio.models.embed_content(model="embed", contents="Lugo")
        await client.aio.aclose()

    asyncio.run(work())

    content, embedding = events.get_events(LLM)
    assert (content["status"], content["llm_model"]) == ("success", SERVED)
    assert (embedding["operation"], embedding["llm_model"]) == ("embeddings", "embed")


@pytest.mark.parametrize("kind", ["sync", "async", "stream"])
def test_retries_of_the_client_are_attempts(kind, standin, events):
    standin.will(BUSY, BUSY)
    client = patient(standin)

    async def work():
        await client.aio.models.generate_content(**ASK)
        await client.aio.aclose()

    @traced_agent("patient")
    def ask():
        if kind == "async":
            asyncio.run(work())
        elif kind == "stream":
            list(client.models.generate_content_stream(**ASK))
        else:
            client.models.generate_content(**ASK)

    ask()

    first, second = events.get_events(RETRY)
    assert (first["retry_attempt"], first["retry_reason"]) == (1, "rate_limited")
    assert "slow down" in first["original_error"]
    assert 0 < first["delay_seconds"] < 5
    assert second["retry_attempt"] == 2
    call = only_call(events)
    assert (call["status"], call["attempt"]) == ("success", 3)


def test_error_is_propagated_unchanged_and_recorded(client, standin, events):
    standin.will(BUSY)

    with pytest.raises(errors.ClientError, match="slow down") as raised:
        client.models.generate_content(**ASK)

    assert raised.value.code == 429
    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "ClientError")


@pytest.mark.parametrize("at_once", [False, True])
def test_invalid_json_response_is_a_failure(at_once, client, standin, monkeypatch):
    """The client parses the body only after the wrapped function has returned."""
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    standin.will(Reply(body=b'{"candidates": [nonsense', headers=JSON))

    with EventRecorder(fixed_ids=at_once) as events, pytest.raises(ValueError, match="Expecting"):
        client.models.generate_content(**ASK)

    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "JSONDecodeError")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{}"])
def test_empty_response_is_reported(body, client, standin, events):
    standin.will(Reply(body=body, headers=JSON))

    client.models.generate_content(**ASK)

    call = only_call(events)
    assert (call["status"], call["problems"]) == ("success", ["malformed_message"])


def test_invalid_json_frames_fail_as_without_wrapping(client, standin, events):
    standin.will(Reply(frames=[b"data: {nonsense\n\n"]))

    with pytest.raises(errors.UnknownApiResponseError, match="nonsense"):
        list(client.models.generate_content_stream(**ASK))

    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "UnknownApiResponseError")


def test_a_stream_left_midway_is_cancelled(client, events):
    for _ in client.models.generate_content_stream(**ASK):
        break

    assert only_call(events)["status"] == "cancelled"


def test_a_connection_cut_within_a_stream_is_a_failure(client, standin, events):
    standin.will(Reply(cut_after=2))

    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|chunked"):
        list(client.models.generate_content_stream(**ASK))

    assert only_call(events)["status"] == "failed"


def test_functions_called_by_the_client_itself_are_rounds_of_their_own(client, standin, events):
    def forecast(place: str) -> str:
        """The weather of a place."""
        return f"rain in {place}"

    said = {**samples.GOOGLE["candidates"][0], "content": {"parts": [{"text": "It rains."}]}}
    last = {**samples.GOOGLE, "candidates": [said]}
    standin.will(Reply(answer=samples.GOOGLE), Reply(answer=last))
    config = types.GenerateContentConfig(tools=[forecast])

    answer = client.models.generate_content(**ASK, config=config)

    assert answer.text == "It rains."
    assert len(events.get_events(LLM)) == 2
    (result,) = [
        event for event in events.get_events(MESSAGES) if event["message_type"] == "tool_response"
    ]
    assert result["tool_name"] == "forecast"


def test_wrap_and_instrument_can_be_undone(standin, events):
    client = unwrap(make(standin))
    client.models.generate_content(**ASK)
    assert list(events) == []
    instrument()
    try:
        client.models.generate_content(**ASK)
        wrapped = make(standin)
        wrapped.models.generate_content(**ASK)
    finally:
        uninstrument()
    client.models.generate_content(**ASK)

    assert len(events.get_events(LLM)) == 2


def test_wrapping_an_unsupported_object_is_a_type_error():
    with pytest.raises(TypeError, match=r"google\.genai\.Client"):
        wrap(object())
