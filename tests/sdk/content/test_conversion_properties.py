"""Conversion of hostile and malformed data: total, bounded, and always valid JSON."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import talk
from tracereel.content import (
    ModelCallContent,
    answered,
    asked,
    conversation,
    parameters_of,
    tools_of,
    usage_of_response,
)
from tracereel.content.messages import MAX_MESSAGES

KEYS = st.sampled_from(
    [
        *(
            "role",
            "content",
            "parts",
            "type",
            "text",
            "id",
            "name",
            "messages",
            "message",
            "kwargs",
        ),
        *("data", "lc", "tool_calls", "function", "arguments", "tool_call_id", "input", "output"),
        *("choices", "candidates", "contents", "source", "image_url", "url", "kind", "part_kind"),
        *("functionCall", "functionResponse", "inlineData", "removed_messages", "citations"),
        *("summary", "thinking", "value", "tools", "system", "content_truncated", "generations"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "tool", "tracereel", "text", "tool_use", "tool_result", "image"),
        *(
            "reasoning",
            "function_call",
            "function_call_output",
            "human",
            "ai",
            "message",
            "request",
        ),
        *("file", "document", "tool-call", "tool-result", "response", "web_search_tool_result"),
        *("data:image/png;base64,AAAA", "…[5 characters removed]…", '{"a":', '[{"role": "user"}]'),
        "\ud800",
    ]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=20), st.binary()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(KEYS, st.text(max_size=5)), inner, max_size=6),
    ),
    max_leaves=40,
)


def convert(value):
    """Return everything that is made of a value, as one content."""
    found = conversation(value)
    return ModelCallContent(
        input=found.messages,
        output=conversation([value], role="assistant").messages,
        tools=tools_of(value),
        parameters=parameters_of(value),
        usage=usage_of_response(value),
        cut=found.cut,
    )


@settings(max_examples=400, deadline=None)
@given(VALUES)
def test_any_value_is_converted_to_content_that_is_json(value):
    made = convert(value)

    text = made.model_dump_json()
    assert ModelCallContent.model_validate_json(text).model_dump_json() == text
    assert len(made.input) <= MAX_MESSAGES
    for said in (asked(value), answered(value)):
        assert said is None or said.strip()


@st.composite
def damaged(draw):
    """Return a provider's messages with some of their values replaced."""
    form = draw(st.sampled_from(["chat", "responses", "anthropic", "google", "gen_ai", "vercel"]))
    messages = getattr(talk, form)()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.sampled_from(messages))
        while isinstance(at, dict) and at:
            name = draw(st.sampled_from(sorted(at, key=str)))
            inner = at[name]
            if isinstance(inner, list) and inner and isinstance(inner[0], dict):
                inner = draw(st.sampled_from(inner))
            if not isinstance(inner, dict) or draw(st.booleans()):
                at[name] = draw(VALUES)
                break
            at = inner
    return messages


@settings(max_examples=200, deadline=None)
@given(damaged())
def test_damaged_messages_do_not_hinder_the_others(messages):
    made = convert(messages)

    json.loads(made.model_dump_json())
    assert len(made.input) >= 2


def test_very_deep_and_cyclic_values_are_cut():
    deep = leaf = []
    for _ in range(10_000):
        leaf.append(inner := [])
        leaf = inner
    loop = {"role": "user"}
    loop["content"] = [loop]
    nested = "[" * 100_000

    for value in (deep, loop, nested, {"messages": deep}, [{"role": "tool", "content": deep}]):
        json.loads(convert(value).model_dump_json())
        asked(value)
