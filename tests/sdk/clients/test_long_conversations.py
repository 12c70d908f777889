"""Long conversations are recorded completely, without secrets and within limits."""

import json
import re

import anthropic
import openai
import pytest

from tests.sdk.clients.reading import LLM, only_call
from tracereel.integrations.anthropic import wrap as wrap_anthropic
from tracereel.integrations.openai import wrap as wrap_openai

TURNS = [
    {
        "role": "user" if turn % 2 == 0 else "assistant",
        "content": f'Turn {turn}: "é"\n' + "so " * 60,
    }
    for turn in range(21)
]


@pytest.fixture
def anthropic_client(standin):
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as made:
        yield wrap_anthropic(made)


@pytest.fixture
def openai_client(standin):
    with openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1") as made:
        yield wrap_openai(made)


def asked(client, turns, **more):
    client.messages.create(model="m", max_tokens=9, messages=turns, **more)


def with_secret(secret):
    return [*TURNS, {"role": "user", "content": f"{secret} is mine"}]


def test_long_conversation_is_recorded_as_sent(anthropic_client, events):
    asked(anthropic_client, TURNS, system="Be brief.")

    told = only_call(events)["input_messages"]
    assert told == [{"role": "system", "content": "Be brief."}, *TURNS]


@pytest.mark.parametrize("system", ["", [], None])
def test_empty_system_instruction_is_not_recorded(anthropic_client, events, system):
    asked(anthropic_client, TURNS, **({} if system is None else {"system": system}))

    assert only_call(events)["input_messages"] == TURNS


def test_every_kind_of_request_is_found_in_what_was_sent(openai_client, events):
    openai_client.chat.completions.create(model="m", messages=TURNS)
    openai_client.responses.create(model="m", input=TURNS, instructions="Be brief.")

    chat, response = events.get_events(LLM)
    assert chat["input_messages"] == TURNS
    assert response["input_messages"] == [{"role": "system", "content": "Be brief."}, *TURNS]


@pytest.mark.parametrize(
    "secret",
    [
        "ana@example.org",
        'password: "hunter2!"',
        '{"api_key": "abcdefgh"}',
        "C:\\ sk-ant-a1b2c3d4e5f6",
    ],
)
def test_secrets_in_long_conversations_are_redacted(anthropic_client, events, secret):
    asked(anthropic_client, with_secret(secret))

    told = only_call(events)["input_messages"]
    assert told[:-1] == TURNS
    assert "[redacted:" in told[-1]["content"]
    assert not any(part in told[-1]["content"] for part in ("ana@", "hunter2", "abcdefgh", "a1b2"))


def test_a_sensitive_key_hides_its_value(anthropic_client, events):
    block = {"type": "tool_use", "id": "t", "name": "n", "input": {"api_key": "not to be seen"}}
    asked(anthropic_client, [*TURNS[:20], {"role": "assistant", "content": [block]}])

    told = only_call(events)["input_messages"][-1]["content"][0]["input"]
    assert told == {"api_key": "[redacted:field]"}


def test_long_text_is_recorded_whole(anthropic_client, events):
    """Texts of more than 16,384 characters used to lose their end."""
    long = "x" * 200_000 + "end"
    asked(anthropic_client, [*TURNS, {"role": "user", "content": long}])

    assert only_call(events)["input_messages"] == [*TURNS, {"role": "user", "content": long}]


def test_oversized_message_loses_its_middle(anthropic_client, events):
    asked(
        anthropic_client, [*TURNS, {"role": "user", "content": "first " + "x" * 300_000 + "last"}]
    )

    told = only_call(events)["input_messages"]
    assert told[:-1] == TURNS
    text = told[-1]["content"]
    assert text.startswith("first xxx")
    assert text.endswith("xxxlast")
    (removed,) = re.findall(r"…\[(\d+) characters removed\]…", text)
    assert len(re.sub("….*…", "", text)) + int(removed) == 300_010
    assert len(text.encode()) <= 256 * 1024


def test_the_last_messages_of_a_long_conversation_stay(openai_client, events):
    """Messages beyond 64 KiB, or 2,000 values, used to vanish."""
    turns = conversation(200, words=300)
    openai_client.chat.completions.create(model="m", messages=turns)

    assert len(json.dumps(turns)) > 5 * 65_536
    assert only_call(events)["input_messages"] == turns


def test_a_conversation_beyond_the_limit_loses_messages_in_the_middle(openai_client, events):
    turns = conversation(200, words=10_000)
    openai_client.chat.completions.create(model="m", messages=turns)

    call = only_call(events)
    told = call["input_messages"]
    (at,) = [number for number, each in enumerate(told) if each["role"] == "tracereel"]
    mark = told[at]
    assert told[:at] == turns[:at]
    assert told[at + 1 :] == turns[at + 1 - len(told) :]
    assert at > 10
    assert len(told) - at > 10
    assert mark["removed_messages"] == len(turns) - len(told) + 1
    assert mark["content"] == ""
    gone = turns[at : at + mark["removed_messages"]]
    assert abs(mark["removed_bytes"] - len(json.dumps(gone))) < 0.1 * mark["removed_bytes"]
    assert call["content_bytes"] <= 3 * 1024 * 1024


def conversation(turns, *, words):
    """Return a conversation in which every third message calls a tool."""
    found = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        call = {"id": f"call_{turn}", "type": "function"}
        function = {"name": "search", "arguments": json.dumps({"q": f"q{turn}", "n": [1, 2]})}
        said = f"{turn}: " + "some " * words
        found += [
            {"role": "user", "content": [{"type": "text", "text": said}]},
            {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]},
            {"role": "tool", "tool_call_id": call["id"], "content": '{"hits": 3}'},
        ]
    return found
