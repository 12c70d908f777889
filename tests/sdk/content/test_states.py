"""Conversations in the values of agents, graphs and steps."""

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import messages_to_dict

from tests.support import talk
from tracereel.content import conversation, state_of

STATES = {
    "chat": talk.chat(),
    "responses": talk.responses(),
    "anthropic": talk.anthropic(),
    "google": talk.google(),
    "langchain": [each.model_dump() for each in talk.langchain()],
    "langchain data": messages_to_dict(talk.langchain()),
    "langchain constructors": dumpd(talk.langchain()),
    "our own": [
        each.model_dump(mode="json", exclude_none=True)
        for each in conversation(talk.chat()).messages
    ],
}


@pytest.mark.parametrize("messages", STATES.values(), ids=STATES)
@pytest.mark.parametrize(
    ("field", "around"),
    [
        (None, lambda messages: messages),
        ("messages", lambda messages: {"messages": messages, "city": "Lima"}),
        ("state", lambda messages: {"state": {"chat_history": messages, "round": 2}}),
    ],
)
def test_a_state_has_the_messages_of_its_conversation(messages, field, around):
    state = state_of(around(messages))

    assert state.messages == conversation(messages).messages
    assert len(state.messages) >= 18
    assert state.field == field


@pytest.mark.parametrize(
    "value",
    [
        *("Lima", None, 7, [], {}, ["a", "b"], {"messages": []}, {"messages": "Lima"}),
        [{"type": "pdf", "name": "map.pdf"}],
        [{"type": "text", "text": "a document"}],
        [{"role": "owner", "content": "of a house"}],
        {"messages": [{"role": "user", "content": "a"}, "and something else"]},
        {"rows": [{"city": "Lima"}]},
    ],
)
def test_other_values_are_no_conversation(value):
    assert state_of(value) == ((), None)


def test_messages_that_were_removed_make_it_a_value_that_says_so():
    removed = {"role": "tracereel", "removed_messages": 9}

    assert state_of([{"role": "user", "content": "a"}, removed]).messages == ()
