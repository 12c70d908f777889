"""Decision endpoints through `with_raw_response` and `with_streaming_response` of real clients."""

import asyncio

import openai
import pytest
from google import genai
from google.genai import types

import tracereel
from tests.sdk.clients.reading import only_call
from tests.sdk.clients.standin import StandIn, error
from tests.sdk.clients.test_decision_endpoints import (
    DECISION,
    GOOGLE,
    NAMED,
    OPENAI,
    QUESTIONS,
    reply,
)
from tests.support.replay_trial import recording
from tracereel import traced_agent
from tracereel.integrations import google as ours_google
from tracereel.integrations import openai as ours_openai
from tracereel.tape import fork
from tracereel.tape import format as tape_format
from tracereel.testing import EventRecorder

ASK_OPENAI = {"model": "gpt-6-luna", "input": "Give it back!", "questions": QUESTIONS}
ASK_GOOGLE = {"model": "models/gemini-4", "input": "Give it back!", "questions": NAMED}
RAW, STREAMED = "with_raw_response", "with_streaming_response"


def client_openai(url):
    return ours_openai.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0))


def client_google(url):
    return ours_google.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)))


def openai_raw(url):
    return client_openai(url).decisions.with_raw_response.create(**ASK_OPENAI).parse()


def openai_streamed(url):
    client = client_openai(url)
    with client.decisions.with_streaming_response.create(**ASK_OPENAI) as response:
        return response.parse()


def openai_async(url, way):
    async def run():
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        async with ours_openai.wrap(client) as wrapped:
            if way == RAW:
                return (await wrapped.decisions.with_raw_response.create(**ASK_OPENAI)).parse()
            create = wrapped.decisions.with_streaming_response.create
            async with create(**ASK_OPENAI) as response:
                return await response.parse()

    return asyncio.run(run())


def google_raw(url):
    client = client_google(url)
    return client.decisions.with_raw_response.create(**ASK_GOOGLE).parse()


def google_streamed(url):
    client = client_google(url)
    with client.decisions.with_streaming_response.create(**ASK_GOOGLE) as response:
        return response.parse()


def google_async(url, way):
    async def run():
        async with client_google(url).aio as client:
            access = getattr(client.decisions, way)
            if way == RAW:
                return await (await access.create(**ASK_GOOGLE)).parse()
            async with access.create(**ASK_GOOGLE) as response:
                return await response.parse()

    return asyncio.run(run())


WAYS = {
    "openai, raw": (openai_raw, OPENAI),
    "openai, streamed": (openai_streamed, OPENAI),
    "openai, async, raw": (lambda url: openai_async(url, RAW), OPENAI),
    "openai, async, streamed": (lambda url: openai_async(url, STREAMED), OPENAI),
    "google, raw": (google_raw, GOOGLE),
    "google, streamed": (google_streamed, GOOGLE),
    "google, async, raw": (lambda url: google_async(url, RAW), GOOGLE),
    "google, async, streamed": (lambda url: google_async(url, STREAMED), GOOGLE),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_raw_response_is_a_call_and_a_record_per_question(way, standin, events):
    decide, answer = WAYS[way]
    standin.will(reply(answer))

    @traced_agent("triage")
    def triage():
        return decide(standin.url)

    given = triage()

    assert len(given.answers) == len(answer["answers"])
    call = only_call(events)
    assert (call["operation"], call["status"], call["was_streamed"]) == (
        "decisions",
        "success",
        False,
    )
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (40, 4)
    records = events.get_events(DECISION)
    assert [each["decision_type"] for each in records[:2]] == ["is_refund", "queue"]
    assert len(records) == len(answer["answers"])
    assert records[1]["chosen"] == "billing"
    assert {each["agent_name"] for each in records} == {"triage"}


@pytest.mark.parametrize("way", WAYS)
def test_a_raw_response_is_served_from_a_tape(way):
    decide, answer = WAYS[way]
    server = StandIn()
    url = server.url
    server.will(reply(answer))

    @traced_agent("triage")
    def triage():
        return decide(url).model_dump(mode="json")

    with recording() as events:
        first = triage()
    server.shutdown()
    server.server_close()

    tape = tape_format.parse(events)
    with tracereel.replay(tape) as replayed:
        assert triage() == first
    assert (replayed.report.identical, replayed.report.served) == (True, 1)
    with EventRecorder() as branch, fork(tape, at=2):
        assert triage() == first
    assert len(branch.get_events(DECISION)) == len(answer["answers"])


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_raw_request_is_a_failed_call(way, standin, events):
    decide, _ = WAYS[way]
    standin.will(error(400, "no such model", "invalid_request_error"))

    with pytest.raises(Exception, match="no such model"):
        decide(standin.url)

    assert only_call(events)["status"] == "failed"
    assert events.get_events(DECISION) == []


@pytest.mark.parametrize("make", [client_openai, client_google])
def test_a_raw_response_that_is_not_read_is_a_call_without_decisions(make, standin, events):
    ask, answer = (ASK_OPENAI, OPENAI) if make is client_openai else (ASK_GOOGLE, GOOGLE)
    standin.will(reply(answer))

    client = make(standin.url)
    with client.decisions.with_streaming_response.create(**ask) as response:
        assert response.status_code == 200

    assert only_call(events)["status"] == "success"
    assert events.get_events(DECISION) == []


def test_the_rate_limits_of_a_raw_response_are_recorded(standin, events):
    given = reply(GOOGLE)
    given.headers["x-ratelimit-remaining-tokens"] = "77"
    standin.will(given)

    google_raw(standin.url)

    assert only_call(events)["llm_tokens_remaining"] == 77
