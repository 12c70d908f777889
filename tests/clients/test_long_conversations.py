"""A long conversation is recorded as it was sent: whole, without its secrets, and within bounds."""

import anthropic
import msgspec
import openai
import pytest

from tests.clients.reading import LLM, only_call
from tracereel.integrations import _dialects
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


def test_it_is_recorded_as_it_was_sent(anthropic_client, events):
    asked(anthropic_client, TURNS, system="Be brief.")

    told = only_call(events)["input_messages"]
    assert told == [{"role": "system", "content": "Be brief."}, *TURNS]


@pytest.mark.parametrize("system", ["", [], None])
def test_an_empty_instruction_is_none(anthropic_client, events, system):
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
def test_its_secrets_are_hidden(anthropic_client, events, secret):
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


def test_what_is_too_much_is_cut_as_ever(anthropic_client, events):
    asked(anthropic_client, [*TURNS, {"role": "user", "content": "x" * 20_000}])

    told = only_call(events)["input_messages"]
    assert told[:-1] == TURNS
    assert len(told[-1]["content"]) == 16_384
    assert told[-1]["content_truncated"]["length"] == 20_000


def test_nothing_has_to_be_made_of_what_was_sent():
    found = _dialects.ANTHROPIC.written(msgspec.json.encode({"messages": TURNS}))
    assert found is not None
    assert found.texts is not None
    assert set(found.keys) == {"role", "content"}


def test_a_body_in_which_nothing_is_found_is_left_to_others():
    written = _dialects.ANTHROPIC.written
    assert written(b'{"messages": "' + b"x" * 3_000 + b'"}') is None
    assert written(b"{" * 3_000) is None
    assert written(b'{"messages": [{"role": "\xff' + b"x" * 3_000 + b'"}]}') is None
