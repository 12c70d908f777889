"""Reasoning in calls of a real client: noted by size, stored only if asked for."""

import json

import anthropic

import tracereel
from tests.sdk.clients.reading import LLM, MESSAGES, only_call, told
from tests.sdk.clients.standin import Reply
from tracereel.integrations.anthropic import wrap

THOUGHT = "The user wants rain."
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": THOUGHT, "signature": "s"},
        {"type": "text", "text": "It rains."},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 9},
}


def ask(standin):
    standin.will(Reply(answer=ANSWER))
    before = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": ANSWER["content"]},
        {"role": "user", "content": "Sure?"},
    ]
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as client:
        answer = wrap(client).messages.create(model="claude-x", max_tokens=9, messages=before)
    assert answer.content[0].thinking == THOUGHT
    assert standin.requests[-1]["messages"] == before


def test_reasoning_is_noted_by_its_size(standin, events):
    ask(standin)

    assert THOUGHT not in json.dumps(list(events))
    note = {"type": "thinking", "thought": True, "size_bytes": len(THOUGHT)}
    call = only_call(events)
    assert call["output_messages"][0]["content"][0] == note
    assert call["input_messages"][1]["content"][0] == note
    assert told(events) == ["thinking", "assistant_message"]
    thinking, said = events.get_events(MESSAGES)
    assert (thinking["content_size_bytes"], said["content"]) == (len(THOUGHT), "It rains.")


def test_reasoning_is_stored_if_asked_for(standin, sink):
    tracereel.configure(endpoint=sink.url, store_thinking=True)
    ask(standin)
    tracereel.flush(20.0)

    thinking = sink.of_type(MESSAGES)[0]
    assert (thinking["content"], thinking["persistence_strategy"]) == (THOUGHT, "async")
    (call,) = sink.of_type(LLM)
    assert call["output_messages"][0]["content"][0]["thinking"] == THOUGHT
