"""Decision endpoints of real clients: a model call and one decision record per question."""

import asyncio
import json

import openai
import pytest
from google import genai
from google.genai import types

import tracereel
from tests.sdk.clients.reading import LLM, only_call
from tests.sdk.clients.standin import Reply, StandIn, error
from tests.support.replay_trial import recording
from tracereel import traced_agent, traced_llm
from tracereel.integrations import google as ours_google
from tracereel.integrations import openai as ours_openai
from tracereel.tape import fork
from tracereel.tape import format as tape_format
from tracereel.testing import EventRecorder

DECISION = "agent.decision.recorded"
QUESTIONS = [
    {"type": "predicate", "name": "is_refund", "instructions": "Is a refund asked for?"},
    {
        "type": "choice",
        "name": "queue",
        "instructions": "Which queue?",
        "choices": [{"value": "billing"}, {"value": "sales"}],
    },
    {
        "type": "score",
        "instructions": "How urgent?",
        "levels": [{"label": "low"}, {"label": "high"}],
    },
    {"type": "predicate", "name": "is_threat", "instructions": "Is it a threat?"},
]
OPENAI = {
    "model": "gpt-6-luna-1",
    "answers": [
        {"type": "predicate", "name": "is_refund", "probability": 0.9},
        {
            "type": "choice",
            "name": "queue",
            "choice": "billing",
            "confidence": 0.7,
            "probabilities": [
                {"value": "billing", "probability": 0.7},
                {"value": "sales", "probability": 0.3},
            ],
        },
        {
            "type": "score",
            "name": None,
            "score": 0.6,
            "confidence": 0.6,
            "probabilities": [
                {"label": "low", "value": 0, "probability": 0.4},
                {"label": "high", "value": 1, "probability": 0.6},
            ],
        },
        {"type": "refusal", "name": "is_threat"},
    ],
    "usage": {
        "input_tokens": 40,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 8},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 44,
    },
}
NAMED = {
    "is_refund": {"type": "noul", "instructions": "Is a refund asked for?"},
    "queue": {
        "type": "choice",
        "instructions": "Which queue?",
        "criteria": {"billing": "money", "sales": "offers"},
    },
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "high"]},
}
GOOGLE = {
    "answers": {
        "is_refund": {"type": "noul", "noul": 0.2, "confidence": 0.8},
        "queue": {
            "type": "choice",
            "choice": "billing",
            "confidence": 0.7,
            "probabilities": {"billing": 0.7, "sales": 0.3},
        },
        "urgency": {
            "type": "score",
            "score": 0.6,
            "confidence": 0.6,
            "legend": {"0": "low", "1": "high"},
            "probabilities": {"0": 0.4, "1": 0.6},
        },
    },
    "usage": {"total_input_tokens": 40, "total_output_tokens": 4, "total_cached_tokens": 8},
}
QUEUES = [{"value": "billing", "score": 0.7}, {"value": "sales", "score": 0.3}]


def reply(answer):
    return Reply(body=json.dumps(answer).encode())


def decides_openai(url):
    client = ours_openai.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0))
    return client.decisions.create(model="gpt-6-luna", input="Give it back!", questions=QUESTIONS)


def decides_openai_async(url):
    async def run():
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")
        async with ours_openai.wrap(client) as wrapped:
            return await wrapped.decisions.create(
                model="gpt-6-luna", input="Give it back!", questions=QUESTIONS
            )

    return asyncio.run(run())


def google_client(url):
    return ours_google.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)))


def decides_google(url):
    client = google_client(url)  # a client that is dropped closes its connection
    return client.decisions.create(model="models/gemini-4", input="Give it back!", questions=NAMED)


def decides_google_async(url):
    async def run():
        client = google_client(url)
        return await client.aio.decisions.create(
            model="models/gemini-4", input="Give it back!", questions=NAMED
        )

    return asyncio.run(run())


def in_agent(decide, url):
    @traced_agent("triage")
    def triage():
        return decide(url)

    return triage()


@pytest.mark.parametrize("decide", [decides_openai, decides_openai_async])
def test_openai_decisions_are_a_call_and_a_record_per_question(decide, standin, events):
    standin.will(reply(OPENAI))

    answer = in_agent(decide, standin.url)

    assert answer.answers[0].probability == 0.9
    call = only_call(events)
    assert (call["llm_provider"], call["llm_model"], call["operation"]) == (
        "openai",
        "gpt-6-luna-1",
        "decisions",
    )
    assert (call["llm_prompt_tokens"], call["llm_cached_tokens"]) == (40, 8)
    assert len(call["output_messages"]) == 4
    refund, queue, urgency, threat = events.get_events(DECISION)
    assert {each["agent_name"] for each in (refund, queue, urgency, threat)} == {"triage"}
    assert (refund["decision_type"], refund["decision_category"]) == ("is_refund", "predicate")
    assert (refund["chosen"], refund["confidence"]) == (True, 0.9)
    assert [each["score"] for each in refund["candidates"]] == pytest.approx([0.9, 0.1])
    assert refund["candidate_scores"] == pytest.approx([0.9, 0.1])
    assert (queue["chosen"], queue["candidates"], queue["confidence"]) == ("billing", QUEUES, 0.7)
    assert queue["input_data"]["instructions"] == "Which queue?"
    assert (urgency["decision_type"], urgency["chosen"]) == ("question_3", 1)
    assert urgency["output_data"]["score"] == 0.6
    assert urgency["candidates"][1] == {"value": 1, "label": "high", "score": 0.6}
    assert (threat["candidates"], threat.get("chosen")) == ([], None)
    assert threat["output_data"]["type"] == "refusal"
    assert {each["span_id"] for each in (refund, queue)} == {call["span_id"]}


@pytest.mark.parametrize("decide", [decides_google, decides_google_async])
def test_google_decisions_are_a_call_and_a_record_per_question(decide, standin, events):
    standin.will(reply(GOOGLE))

    answer = in_agent(decide, standin.url)

    assert answer.answers["is_refund"].noul == 0.2
    call = only_call(events)
    assert (call["llm_provider"], call["llm_model"], call["operation"]) == (
        "google",
        "gemini-4",
        "decisions",
    )
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (40, 4)
    refund, queue, urgency = events.get_events(DECISION)
    assert (refund["decision_type"], refund["chosen"]) == ("is_refund", False)
    assert [each["score"] for each in refund["candidates"]] == pytest.approx([0.2, 0.8])
    assert (queue["chosen"], queue["candidates"]) == ("billing", QUEUES)
    assert urgency["candidates"][1] == {"value": "1", "label": "high", "score": 0.6}
    assert urgency["chosen"] == "1"


@pytest.mark.parametrize(
    ("decide", "answer"),
    [
        (decides_openai, OPENAI),
        (decides_openai_async, OPENAI),
        (decides_google, GOOGLE),
        (decides_google_async, GOOGLE),
    ],
)
def test_decisions_are_served_from_a_tape(decide, answer):
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


def test_a_refused_request_is_a_failed_call_without_decisions(standin, events):
    standin.will(error(400, "no such model", "invalid_request_error"))

    with pytest.raises(openai.BadRequestError):
        in_agent(decides_openai, standin.url)

    assert only_call(events)["status"] == "failed"
    assert events.get_events(DECISION) == []


def test_decisions_inside_of_a_traced_call_belong_to_it(standin, events):
    standin.will(reply(OPENAI))

    @traced_llm("router")
    def ask():
        return decides_openai(standin.url)

    ask()

    (call,) = events.get_events(LLM)
    assert call["llm_model_requested"] == "router"
    assert len(events.get_events(DECISION)) == 4


def test_no_content_is_recorded_if_it_is_off(standin):
    standin.will(reply(OPENAI))

    with EventRecorder(capture_content=False) as recorder:
        in_agent(decides_openai, standin.url)

    assert "billing" not in json.dumps(recorder.events)
    assert [each["confidence"] for each in recorder.get_events(DECISION)][:2] == [0.9, 0.7]


def test_an_unwrapped_or_instrumented_google_client(standin, events):
    client = ours_google.unwrap(google_client(standin.url))
    ask = {"model": "gemini-4", "input": "?", "questions": NAMED}
    standin.will(reply(GOOGLE), reply(GOOGLE))
    client.decisions.create(**ask)
    assert events.get_events(LLM) == []

    ours_google.instrument()
    try:
        client.decisions.create(**ask)
    finally:
        ours_google.uninstrument()
    assert only_call(events)["llm_provider"] == "google"
