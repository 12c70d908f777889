"""The last question and the last answer in values of any form; summaries of messages."""

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from pydantic import BaseModel

from tracereel.content import answered, asked

HISTORY = [HumanMessage("First?"), AIMessage("One."), HumanMessage("Second?"), AIMessage("Two.")]


class Ticket(BaseModel):
    """State of a program."""

    number: int = 7
    question: str = "Where is my parcel?"


@pytest.mark.parametrize(
    "value",
    [
        "Second?",
        {"messages": HISTORY},
        {"messages": messages_to_dict(HISTORY), "steps_left": 3},
        {"state": {"messages": dumpd(HISTORY)}, "config": {"thread": "x"}},
        {"messages": [("user", "Second?")]},
        {"input": [{"role": "user", "content": "Second?"}]},
        {"args": [], "kwargs": {"question": "Second?", "limit": 3}},
        {"inputs": {"query": "Second?"}},
        '{"prompt": "Second?"}',
        [{"role": "user", "content": [{"type": "text", "text": "Second?"}]}],
        {"contents": [{"role": "user", "parts": [{"text": "Second?"}]}]},
    ],
)
def test_the_last_question_is_found_in_any_input(value):
    assert asked(value) == "Second?"


@pytest.mark.parametrize(
    "value",
    [
        "Two.",
        {"messages": HISTORY},
        {"guide": {"messages": dumpd(HISTORY)}},
        {"answer": "Two.", "sources": ["a b", "c d"]},
        {"output": {"text": "Two."}},
        {"choices": [{"message": {"role": "assistant", "content": "Two."}}]},
        [{"role": "assistant", "content": "Two."}],
        HISTORY[-1],
    ],
)
def test_the_last_answer_is_found_in_any_output(value):
    assert answered(value) == "Two."


def test_a_models_field_or_its_only_sentence_is_the_question():
    assert asked(Ticket()) == "Where is my parcel?"
    assert asked({"id": "x7", "what": "Where is my parcel?"}) == "Where is my parcel?"


@pytest.mark.parametrize(
    "value",
    [
        *(None, 7, [], {}, "", {"a": 1, "b": [2]}, {"x": "a b c", "y": "d e f"}),
        {"contact": "Dr. Smith", "date": "tomorrow", "readings": ["today", "this morning"]},
    ],
)
def test_values_without_an_obvious_text_have_no_question(value):
    assert asked(value) is None
