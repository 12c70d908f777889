"""Finished results as canonical events: order, tools, models, and every block type."""

from types import SimpleNamespace

import pytest

from tests.sdk.providers import samples
from tracereel.providers import BatchResultNormalizer, ToolCall, ToolResult, UnknownProviderError
from tracereel.providers.base import PERSISTENCE, ROLES


def messages_of(result):
    return [(event.type, event.content, event.original_index) for event in result.events]


def ai(content="", **fields):
    return {"type": "ai", "content": content, **fields}


def call(name="look", args=None, identity="call_1"):
    return {"name": name, "args": args or {}, "id": identity, "type": "tool_call"}


def tool(content, identity="call_1", **fields):
    return {"type": "tool", "content": content, "tool_call_id": identity, **fields}


def normalize(state, **options):
    return BatchResultNormalizer(**options).normalize(state)


def test_the_complete_example():
    result = BatchResultNormalizer(session_id="s").normalize(samples.APPENDIX_A)

    assert messages_of(result) == [
        ("thinking", "I need to...", 1),
        ("assistant_message", "I will create the order.", 2),
        ("tool_request", None, 3),
        ("tool_response", "Order created: SO-001", 4),
        ("assistant_message", "Done! Order SO-001 created.", 5),
    ]
    assert result.events[2].tool_call == ToolCall(
        id="toolu_01", name="create_order", arguments={"customer": "X"}
    )
    assert result.events[3].tool_result == ToolResult(
        call_id="toolu_01", name="create_order", content="Order created: SO-001", success=True
    )
    assert [event.persistence_strategy for event in result.events] == [
        "transient",
        "sync",
        "async",
        "async",
        "sync",
    ]
    assert [event.stop_reason_raw for event in result.events] == [
        None,
        None,
        "tool_use",
        None,
        "end_turn",
    ]
    assert (result.stop_reason, result.usage.input_tokens, result.usage.output_tokens) == (
        "success",
        30,
        12,
    )
    assert {event.session_id for event in result.events} == {"s"}
    assert result.problems == ()


def test_a_whole_turn_has_its_beginning_its_user_and_its_end():
    result = BatchResultNormalizer().normalize(samples.APPENDIX_A, whole_turn=True)

    assert [event.type for event in result.events] == [
        "session_start",
        "user_message",
        "thinking",
        "assistant_message",
        "tool_request",
        "tool_response",
        "assistant_message",
        "complete",
    ]
    assert [event.original_index for event in result.events] == list(range(8))
    assert result.events[-1].stop_reason == "success"


def test_every_type_has_a_strategy_and_a_role_and_none_is_retired():
    assert PERSISTENCE.keys() == ROLES.keys()
    assert not PERSISTENCE.keys() & {"thinking_chunk", "message_chunk", "message_partial"}
    assert [PERSISTENCE[name] for name in ("session_start", "user_message", "thinking")] == [
        "transient",
        "sync",
        "transient",
    ]
    assert [PERSISTENCE[name] for name in ("tool_request", "tool_response")] == ["async", "async"]
    assert [PERSISTENCE[name] for name in ("assistant_message", "error", "complete")] == [
        "sync",
        "transient",
        "transient",
    ]


@pytest.mark.parametrize(
    ("block", "kind", "content"),
    [
        ({"type": "thinking", "thinking": "hm"}, "thinking", "hm"),
        ({"type": "redacted_thinking", "data": "x"}, "thinking", None),
        ({"type": "reasoning", "reasoning": "hm"}, "thinking", "hm"),
        ({"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}]}, "thinking", "a\n\nb"),
        ({"type": "reasoning_content", "reasoning_content": {"text": "hm"}}, "thinking", "hm"),
        ({"type": "text", "text": "hi"}, "assistant_message", "hi"),
        ({"type": "output_text", "text": "hi"}, "assistant_message", "hi"),
        ("hi", "assistant_message", "hi"),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {}}, "tool_request", None),
        ({"type": "tool_call", "id": "t", "name": "f", "args": {}}, "tool_request", None),
        ({"type": "function_call", "call_id": "t", "name": "f"}, "tool_request", None),
        ({"type": "server_tool_use", "id": "t", "name": "f", "input": {}}, "tool_request", None),
        ({"type": "refusal", "refusal": "no"}, "content_refused", "no"),
        (
            {"type": "non_standard", "value": {"type": "text", "text": "in"}},
            "assistant_message",
            "in",
        ),
    ],
)
def test_each_kind_of_block(block, kind, content):
    result = normalize([ai([block])])

    assert messages_of(result) == [(kind, content, 0)]
    assert result.problems == ()


def test_a_request_carries_id_name_and_arguments():
    block = {"type": "tool_use", "id": "toolu_9", "name": "f", "input": {"a": [1]}}

    (event,) = normalize([ai([block])]).events

    assert event.tool_call == ToolCall(id="toolu_9", name="f", arguments={"a": [1]})
    assert event.raw == block


def test_blocks_keep_their_order_and_know_their_place():
    blocks = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}]
    result = normalize([{"type": "human", "content": "?"}, ai([*blocks, "c"], id="m1")])

    assert messages_of(result) == [
        ("assistant_message", "a", 1),
        ("thinking", "b", 2),
        ("assistant_message", "c", 3),
    ]
    assert [(e.message_index, e.block_index, e.message_id) for e in result.events] == [
        (1, 0, "m1"),
        (1, 1, "m1"),
        (1, 2, "m1"),
    ]


def test_langchains_id_is_the_identity_and_the_providers_stands_beside_it():
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}}
    message = ai([block], tool_calls=[call(args={"at": 1}, identity="lc_1")])

    for answered in ("lc_1", "toolu_1"):
        result = normalize([message, tool("seen", answered)])

        request, response = result.events
        assert (request.tool_call.id, request.tool_call.provider_id) == ("lc_1", "toolu_1")
        assert (response.tool_result.call_id, response.tool_result.provider_id) == (
            "lc_1",
            "toolu_1",
        )


def test_calls_beside_text_content_follow_it():
    message = ai("Looking.", tool_calls=[call(identity="a"), call("open", identity="b")])

    result = normalize([message, tool("2", "b"), tool("1", "a")])

    assert [event.type for event in result.events] == [
        "assistant_message",
        "tool_request",
        "tool_request",
        "tool_response",
        "tool_response",
    ]
    assert [e.tool_result.name for e in result.events[3:]] == ["open", "look"]


def test_tool_result_in_message_and_executions_is_deduplicated():
    executions = [{"toolUseId": "call_1", "toolName": "look", "result": "x", "success": False}]
    executions[0]["error"] = "broke"
    state = {"messages": [ai(tool_calls=[call()]), tool("x"), tool("x")]}

    result = normalize({**state, "toolExecutions": executions})

    assert [event.type for event in result.events] == ["tool_request", "tool_response"]
    assert result.events[1].tool_result.error == "broke"
    assert result.events[1].tool_result.success is False
    assert result.duplicate_tool_events == 1


def test_result_only_in_executions_is_placed_after_its_request():
    state = {
        "messages": [ai(tool_calls=[call()]), ai("Done.")],
        "tool_executions": [{"tool_use_id": "call_1", "result": "x", "success": True}],
    }

    assert messages_of(normalize(state)) == [
        ("tool_request", None, 0),
        ("tool_response", "x", 1),
        ("assistant_message", "Done.", 2),
    ]


def test_execution_without_a_request_is_kept_and_reported_as_unmatched():
    execution = {"toolUseId": "t", "toolName": "f", "args": {"a": 1}, "result": "r"}

    result = normalize({"messages": [ai("hi")], "toolExecutions": [execution]})

    assert [event.type for event in result.events] == [
        "assistant_message",
        "tool_request",
        "tool_response",
    ]
    assert [problem.code for problem in result.problems] == ["unmatched_tool_result"]


def test_duplicate_tool_request_is_dropped_but_a_reused_id_is_kept():
    message = ai(tool_calls=[call()], usage_metadata={"input_tokens": 5, "output_tokens": 1})
    same = normalize([message, message])
    again = normalize(
        [ai(tool_calls=[call()]), tool("1"), ai(tool_calls=[call(args={"n": 2})]), tool("2")]
    )

    assert [event.type for event in same.events] == ["tool_request"]
    assert same.usage.input_tokens == 5
    assert same.duplicate_tool_events == 1
    assert [e.tool_result.content for e in again.events if e.tool_result] == ["1", "2"]


def test_anthropic_tool_results_travel_with_the_user():
    messages = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "bad", "is_error": True},
                {"type": "text", "text": "and now?"},
            ],
        },
    ]

    result = BatchResultNormalizer().normalize(messages, user_messages=True)

    assert messages_of(result) == [
        ("user_message", "go", 0),
        ("tool_request", None, 1),
        ("tool_response", "bad", 2),
        ("user_message", "and now?", 3),
    ]
    assert result.events[2].tool_result.success is False


def test_every_event_names_the_model_that_answered():
    state = {
        "messages": [
            {"type": "human", "content": "?"},
            ai(tool_calls=[call()], response_metadata={"model_name": "claude-haiku-4-5"}),
            tool("x"),
            ai("Done."),
        ],
        "usedModel": "gpt-4o",
    }

    result = BatchResultNormalizer().normalize(state, user_messages=True)

    assert [event.model for event in result.events] == [
        "claude-haiku-4-5",
        "claude-haiku-4-5",
        "claude-haiku-4-5",
        "gpt-4o",
    ]
    assert {event.model for event in normalize([ai("hi")]).events} == {"unknown"}
    assert normalize([ai("hi")], model="asked-for").model == "asked-for"


@pytest.mark.parametrize(
    ("metadata", "provider"),
    [
        ({"model_provider": "anthropic"}, "anthropic"),
        ({"model_provider": "google_genai"}, "google"),
        ({"model_name": "gpt-4o"}, "openai"),
        ({"model_name": "gemini-2.5-pro"}, "google"),
        ({}, "langchain"),
    ],
)
def test_the_provider_behind_langchain_is_seen(metadata, provider):
    assert normalize([ai("hi", response_metadata=metadata)]).events[0].provider == provider


def test_the_same_message_has_the_same_event_ids():
    first, second = (normalize(samples.APPENDIX_A) for _ in range(2))

    assert [e.event_id for e in first.events] == [e.event_id for e in second.events]
    assert len({e.event_id for e in first.events}) == 5


def test_objects_are_read_like_dictionaries():
    messages = [SimpleNamespace(**message) for message in samples.APPENDIX_A["messages"]]
    executions = [SimpleNamespace(**each) for each in samples.APPENDIX_A["toolExecutions"]]
    state = SimpleNamespace(messages=messages, toolExecutions=executions)

    assert normalize(state) == normalize(samples.APPENDIX_A)


@pytest.mark.parametrize("state", [{"messages": []}, [], {"messages": [{"role": "user"}]}])
def test_without_answers_there_are_no_events(state):
    result = normalize(state)

    assert (result.events, result.problems, result.usage) == ((), (), None)


def test_an_unknown_provider_is_named_with_those_there_are():
    with pytest.raises(UnknownProviderError, match=r"'cohere'.*anthropic.*openai"):
        BatchResultNormalizer(provider="cohere")


def test_raw_may_be_left_out():
    result = normalize(samples.APPENDIX_A, keep_raw=False)

    assert {event.raw for event in result.events} == {None}


def test_an_approval_waits_for_a_person_and_pauses_the_turn():
    interrupt = {"id": "i", "value": {"action_requests": [{"name": "pay", "args": {"eur": 5}}]}}
    state = {"messages": [ai(tool_calls=[call("pay")])], "__interrupt__": [interrupt]}

    result = normalize(state)

    assert [event.type for event in result.events] == ["tool_request", "approval_requested"]
    assert result.events[1].approval.tool_name == "pay"
    assert (result.stop_reason, result.stop_reason_raw) == ("paused", "interrupt")


def test_a_plain_chat_of_openai():
    function = {"name": "look", "arguments": '{"at": 1}'}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "assistant", "content": "Done."},
    ]

    result = normalize(messages, provider="openai", model="gpt-4o")

    assert messages_of(result) == [
        ("tool_request", None, 2),
        ("tool_response", "seen", 3),
        ("assistant_message", "Done.", 4),
    ]
    assert result.events[0].tool_call == ToolCall(id="c1", name="look", arguments={"at": 1})
    assert {event.provider for event in result.events} == {"openai"}
    assert result.problems == ()
