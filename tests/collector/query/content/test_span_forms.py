"""Forms of spans that no recording has, and hostile ones: written from documentation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collector.query.content.recorded import insert, reader
from tests.collector.store.dialects.handwritten import request
from tracereel_collector.model import Kind
from tracereel_collector.query.content.from_events import content_of_events
from tracereel_collector.query.content.from_span import content_of_span, raw_of_span
from tracereel_collector.query.content.numbered import unflatten
from tracereel_collector.query.content.rows import ContentLog, ContentSpan
from tracereel_collector.store.dialects import content as names

ASKED = {"role": "user", "content": "Weather?"}
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "Lima"}'}}


def model_call(attributes, events=(), logs=()):
    """Return the content of a model call's span."""
    span = ContentSpan(
        call_kind="llm",
        attributes={name: _text(value) for name, value in attributes.items()},
        names=[name for name, _ in events],
        times=[0] * len(events),
        event_attributes=[{key: _text(each) for key, each in said.items()} for _, said in events],
    )
    return content_of_span(span, lambda: logs)


def tool_call(**attributes):
    """Return the content of a tool's span; `__` stands for a dot."""
    found = {name.replace("__", "."): _text(value) for name, value in attributes.items()}
    return content_of_span(ContentSpan(call_kind="tool", attributes=found), list)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)


def said(content):
    """Return roles and texts, arguments or results of both sides."""
    return [
        (message.role, *(part.text or part.value for part in message.parts))
        for message in (*content.input, *content.output)
    ]


def test_requests_of_googles_older_agent_kit_are_read():
    request = {
        "model": "gemini",
        "config": {
            "system_instruction": "Be brief.",
            "temperature": 0.5,
            "tools": [{"function_declarations": [{"name": "look"}]}],
        },
        "contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
    }
    response = {
        "content": {
            "role": "model",
            "parts": [{"function_call": {"name": "look", "args": {"at": "Lima"}}}],
        }
    }

    found = model_call(
        {"gcp.vertex.agent.llm_request": request, "gcp.vertex.agent.llm_response": response}
    )

    assert said(found) == [
        ("system", "Be brief."),
        ("user", "Weather?"),
        ("assistant", {"at": "Lima"}),
    ]
    assert [tool.name for tool in found.tools] == ["look"]
    assert found.parameters == {"temperature": 0.5}


def test_messages_in_span_events_are_read():
    events = [
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Weather?"}),
        ("gen_ai.assistant.message", {"tool_calls": [CALL]}),
        ("gen_ai.tool.message", {"content": "sunny", "id": "c"}),
        ("gen_ai.choice", {"message": {"role": "assistant", "content": "Sunny."}, "index": "0"}),
    ]

    found = model_call({}, events)

    assert said(found) == [
        ("system", "Be brief."),
        ("user", "Weather?"),
        ("assistant", {"at": "Lima"}),
        ("tool", "sunny"),
        ("assistant", "Sunny."),
    ]


def test_prompts_and_completions_of_older_span_events_are_read():
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": [ASKED]}),
        (
            "gen_ai.content.completion",
            {"gen_ai.completion": [{"role": "assistant", "content": "Sunny."}]},
        ),
    ]

    assert said(model_call({}, events)) == [("user", "Weather?"), ("assistant", "Sunny.")]


@pytest.mark.parametrize("place", ["events", "logs"])
def test_the_details_event_has_the_attributes_of_a_call(place):
    details = {
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
        "gen_ai.input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
        ],
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
        ],
    }
    texts = {name: json.dumps(value) for name, value in details.items()}
    name = "gen_ai.client.inference.operation.details"

    found = (
        model_call({}, [(name, texts)])
        if place == "events"
        else model_call({}, logs=[ContentLog(name, "", texts)])
    )

    assert said(found) == [("system", "Be brief."), ("user", "Weather?"), ("assistant", "Sunny.")]


def test_numbered_attributes_of_openllmetry_are_read_in_order():
    attributes = {f"gen_ai.prompt.{number}.role": "user" for number in range(12)}
    attributes |= {f"gen_ai.prompt.{number}.content": f"text {number}" for number in range(12)}
    attributes |= {
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.name": "look",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"at": "Lima"}',
        "llm.request.functions.0.name": "look",
        "llm.request.functions.0.parameters": '{"type": "object"}',
    }

    found = model_call(attributes)

    assert said(found) == [
        *[("user", f"text {number}") for number in range(12)],
        ("assistant", {"at": "Lima"}),
    ]
    assert [(tool.name, tool.parameters) for tool in found.tools] == [("look", {"type": "object"})]


def test_prompts_of_openinference_without_messages_are_read():
    found = model_call(
        {"llm.prompts.0.prompt.text": "Once", "llm.choices.0.completion.text": "upon a time"}
    )

    assert said(found) == [("user", "Once"), ("assistant", "upon a time")]


def test_names_that_are_value_and_prefix_at_once_keep_both():
    assert unflatten({"a.0.b": "1", "a.0.b.c": "2", "a.x": "3", "a.2.d.0": "4"}, "a.") == [
        {"b": {"": "1", "c": "2"}},
        {"d": ["4"]},
    ]


def test_a_tools_schema_is_not_taken_for_its_arguments():
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    inputs = {"at": {"type": "string", "description": "Where"}}
    arguments = {"at": "Lima"}

    for described in (schema, inputs):
        found = tool_call(tool__parameters=described, input__value=arguments, output__value="sunny")
        assert (found.arguments, found.result) == (arguments, "sunny")
    assert tool_call(tool__parameters=arguments, input__value="{}").arguments == arguments


@pytest.mark.parametrize(
    "given",
    [
        {"args": [], "kwargs": {"at": "Lima"}},
        {"inputs": {"at": "Lima"}, "tags": [], "metadata": {}, "kwargs": {}},
        {"at": "Lima"},
    ],
)
def test_arguments_are_taken_out_of_an_instrumentations_description(given):
    assert tool_call(traceloop__entity__input=given).arguments == {"at": "Lima"}


def test_the_content_of_a_frameworks_tool_message_is_the_result():
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": "sunny", "tool_call_id": "c", "type": "tool"},
    }

    assert tool_call(traceloop__entity__output={"output": message, "kwargs": {}}).result == "sunny"


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.response.time_to_first_chunk": 0.25},
        {"gen_ai.client.operation.time_to_first_chunk": 0.25},
        {"gen_ai.server.time_to_first_token": 0.25},
        {"ai.response.msToFirstChunk": 250},
        {"ttft_ms": 250.0},
    ],
)
def test_the_first_token_is_read_from_any_attribute(store, attributes):
    name = next(iter(attributes))
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes}
    insert(store, Kind.SPANS, name, request("t", [call]))

    found = reader(store).content(name, b"t".ljust(16, b".").hex(), f"{1:016x}")

    assert found.first_token_ms == 250.0


@pytest.mark.parametrize("name", names.FIRST_TOKEN_EVENTS)
def test_the_first_token_is_read_from_span_events(name):
    span = ContentSpan(
        call_kind="llm",
        began=1_000_000_000,
        duration=1_250_000_000,
        completion_tokens=20,
        names=[name, name],
        times=[1_250_000_000, 1_300_000_000],
        event_attributes=[{}, {}],
    )

    found = content_of_span(span, list)

    assert (found.first_token_ms, found.tokens_per_second) == (250.0, 20.0)


NAMES = st.sampled_from(
    [
        *(each for each in (*names.INPUT, *names.OUTPUT) if isinstance(each, str)),
        *(*names.BOTH, *names.SYSTEM, *names.ARGUMENTS, *names.RESULT, *names.WHOLE_INPUT),
        *("llm.input_messages.0.message.role", "llm.input_messages.0.message.contents.0"),
        *(
            "llm.input_messages.0.message",
            "gen_ai.prompt.0.tool_calls.0.name",
            "gen_ai.prompt.٣.role",
        ),
        *("llm.tools.0.tool.json_schema", "gen_ai.request.temperature", "ai.response.toolCalls"),
    ]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "parts", "messages", "kwargs", "input", "lc"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=15,
)
TEXTS = st.one_of(st.text(max_size=20), JSON.map(json.dumps))


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(NAMES, TEXTS, max_size=8),
    st.sampled_from(["llm", "tool", "agent", "retrieval", ""]),
    st.sampled_from(["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt"]),
    st.dictionaries(st.sampled_from(["content", "message", "gen_ai.prompt", "role"]), TEXTS),
)
def test_any_span_has_content_that_is_json(attributes, kind, event, described):
    span = ContentSpan(
        call_kind=kind,
        attributes=attributes,
        types=dict.fromkeys(attributes, 5),
        names=[event],
        times=[0],
        event_attributes=[described],
    )
    logs = [ContentLog(event, json.dumps(described), described)]

    content_of_span(span, lambda: logs).model_dump_json()
    raw_of_span(span, logs)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["llm", "tool", "agent", "step"]),
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "input_messages",
                        "output_messages",
                        "arguments",
                        "result",
                        "input",
                        "output",
                    ),
                    *("event_type", "llm_prompt_tokens", "duration_ms", "time_to_first_token_ms"),
                    *("output_messages_truncated", "content", "message_type", "citations", "role"),
                ]
            ),
            st.one_of(
                JSON,
                st.sampled_from(["agent.llm.called", "agent.message.normalized", "assistant"]),
            ),
        ),
        max_size=4,
    ),
)
def test_any_events_have_content_that_is_json(kind, events):
    content_of_events(kind, events).model_dump_json()
