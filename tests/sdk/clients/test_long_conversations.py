"""Long conversations are recorded completely, without secrets and within limits."""

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


def test_oversized_message_is_truncated(anthropic_client, events):
    asked(anthropic_client, [*TURNS, {"role": "user", "content": "x" * 20_000}])

    told = only_call(events)["input_messages"]
    assert told[:-1] == TURNS
    assert len(told[-1]["content"]) == 16_384
    assert told[-1]["content_truncated"]["length"] == 20_000
