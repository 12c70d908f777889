"""Adapters: messages, blocks, stop reasons and tokens, alone and inside of the normalizer."""

import logging

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.sdk.providers import samples
from tracereel.providers import (
    AnthropicAdapter,
    AzureOpenAIAdapter,
    BatchAdapterFactory,
    BatchResultNormalizer,
    GoogleAdapter,
    LangChainAdapter,
    MessageAdapter,
    OpenAIAdapter,
    UnknownProviderError,
    Usage,
)

THOUGHTFUL = AIMessage(
    content=[
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "it"}},
    ],
    tool_calls=[{"id": "toolu_1", "name": "look", "args": {"at": "it"}}],
    response_metadata={
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    id="msg_1",
)


def with_stop(word):
    return AIMessage(content="hi", response_metadata={"stop_reason": word})


@pytest.mark.parametrize("name", ["anthropic", "openai", "azure-openai", "google", "langchain"])
def test_an_adapter_gives_the_same_events_as_the_provider_option(name):
    adapter = BatchAdapterFactory.create(name)
    normalizer = BatchResultNormalizer(session_id="s")

    adapted = normalizer.normalize(samples.APPENDIX_A, adapter)
    plain = BatchResultNormalizer(
        session_id="s", provider=None if name == "langchain" else name
    ).normalize(samples.APPENDIX_A)

    assert adapted.events == plain.events
    assert list(adapted) == list(plain.events)
    assert (adapted.usage, adapted.stop_reason) == (plain.usage, plain.stop_reason)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anthropic", AnthropicAdapter),
        ("Claude", AnthropicAdapter),
        ("openai", OpenAIAdapter),
        ("azure-openai", AzureOpenAIAdapter),
        ("gemini", GoogleAdapter),
        ("langgraph", LangChainAdapter),
    ],
)
def test_the_factory_knows_providers_and_aliases(name, kind):
    adapter = BatchAdapterFactory.create(name)

    assert type(adapter) is kind


def test_the_factory_refuses_an_unknown_provider_and_lists_the_known_ones():
    with pytest.raises(UnknownProviderError, match=r"'acme' is not known; known are anthropic"):
        BatchAdapterFactory.create("acme")


def test_a_message_becomes_one_event_per_block():
    events = AnthropicAdapter().normalize_message(THOUGHTFUL, 1)

    assert [(event.type, event.content, event.original_index) for event in events] == [
        ("thinking", "hm", 1),
        ("assistant_message", "I will.", 2),
        ("tool_request", None, 3),
    ]
    assert {(event.provider, event.message_index) for event in events} == {("anthropic", 1)}
    assert events[2].tool_call.arguments == {"at": "it"}
    assert (events[2].stop_reason, events[2].usage) == (
        "success",
        Usage(input_tokens=7, output_tokens=3),
    )


def test_a_message_without_content_is_one_empty_message():
    (event,) = AnthropicAdapter().normalize_message(AIMessage(content=""), 0)

    assert (event.type, event.content, event.usage) == ("assistant_message", "", None)


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"type": "thinking", "thinking": "hm"}, "thinking"),
        ({"type": "redacted_thinking", "data": "x"}, "thinking"),
        ({"type": "text", "text": "hi"}, "text"),
        ("hi", "text"),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {}}, "tool_use"),
        ({"type": "server_tool_use", "id": "t", "name": "f", "input": {}}, "tool_use"),
        ({"text": "hm", "thought": True}, "thinking"),
        ({"text": "hi"}, "text"),
        ({"functionCall": {"name": "f", "args": {}}}, "tool_use"),
        ({"type": "image", "data": "x"}, None),
        (None, None),
        (7, None),
    ],
)
def test_the_type_of_a_block(block, kind):
    assert GoogleAdapter().detect_block_type(block) == kind


@pytest.mark.parametrize(
    ("word", "canonical"),
    [
        ("end_turn", "success"),
        ("tool_use", "success"),
        ("max_tokens", "max_tokens"),
        ("max_turns", "max_tokens"),
        ("pause_turn", "paused"),
        ("refusal", "refused"),
        (None, None),
    ],
)
def test_stop_reasons(word, canonical, caplog):
    assert AnthropicAdapter().normalize_stop_reason(word) == canonical
    assert caplog.records == []


def test_an_unknown_stop_reason_is_a_success_and_is_logged_once(caplog):
    adapter = AnthropicAdapter()

    with caplog.at_level(logging.WARNING, logger="tracereel.providers"):
        first = adapter.normalize_stop_reason("tired_of_it")
        result = BatchResultNormalizer().normalize([with_stop("tired_of_it")], adapter)

    assert (first, result.stop_reason, result.stop_reason_raw) == (
        "success",
        "success",
        "tired_of_it",
    )
    assert [problem.code for problem in result.problems] == ["unknown_stop_reason"]
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "tracereel.providers")
    assert "'tired_of_it' is not known" in record.getMessage()


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        (
            {"response_metadata": {"usage": {"input_tokens": 2, "output_tokens": 1}}},
            Usage(input_tokens=2, output_tokens=1),
        ),
        (
            {"usage_metadata": {"input_tokens": 4, "output_tokens": 3, "total_tokens": 7}},
            Usage(input_tokens=4, output_tokens=3),
        ),
        ({}, None),
    ],
)
def test_usage_of_a_message(fields, usage):
    assert AnthropicAdapter().extract_usage(AIMessage(content="hi", **fields)) == usage


def test_an_adapter_of_the_program_is_used():
    class Halved(AnthropicAdapter):
        def extract_usage(self, message):
            usage = super().extract_usage(message)
            return Usage(input_tokens=usage.input_tokens // 2)

        def normalize_stop_reason(self, reason):
            return "paused" if reason == "tool_use" else super().normalize_stop_reason(reason)

    state = {
        "messages": [
            HumanMessage("?"),
            THOUGHTFUL,
            ToolMessage("it", tool_call_id="toolu_1"),
            THOUGHTFUL,
        ],
        "usedModel": "claude-x",
    }

    result = BatchResultNormalizer().normalize(state, Halved())

    assert (result.usage, result.stop_reason) == (Usage(input_tokens=6), "paused")
    assert [event.type for event in result][3] == "tool_response"
    assert {event.model for event in result} == {"claude-x"}
    assert result.duplicate_tool_events == 1


def test_an_adapter_that_fails_is_a_problem_and_the_other_messages_stay():
    class Picky(MessageAdapter):
        def normalize_message(self, message, index=0):
            if index == 0:
                raise ValueError("no")
            return super().normalize_message(message, index)

    result = BatchResultNormalizer().normalize([with_stop("end_turn"), with_stop("stop")], Picky())

    assert [problem.message for problem in result.problems] == ["ValueError: no"]
    assert result.events[-1].content == "hi"


def test_an_adapter_may_leave_a_message_out():
    class Silent(MessageAdapter):
        def normalize_message(self, message, index=0):
            return ()

    assert BatchResultNormalizer().normalize([THOUGHTFUL], Silent()).events == ()
