"""Whole responses of each provider, from the wire or from a client."""

import pytest

from tests.sdk.providers import samples
from tracereel.providers import (
    BatchResultNormalizer,
    Routing,
    active_seconds,
    waited_seconds,
)
from tracereel.providers.waiting import read_answers, read_interrupts


def messages_of(result):
    return [(event.type, event.content) for event in result.events]


def normalize(answer, **options):
    return BatchResultNormalizer(**options).normalize(answer)


def test_anthropic():
    result = normalize(samples.ANTHROPIC)

    assert messages_of(result) == [
        ("thinking", "The law says two weeks."),
        ("thinking", None),
        ("assistant_message", "Two weeks, as the law says."),
        ("tool_request", None),
        ("tool_response", None),
        ("tool_request", None),
    ]
    search, found, book = (event for event in result.events[3:])
    assert (search.tool_call.name, search.tool_call.runs_at_provider) == ("web_search", True)
    assert found.tool_result.call_id == "srvtoolu_1"
    assert found.tool_result.content[0]["url"] == "https://boe.es"
    assert (book.tool_call.id, book.tool_call.runs_at_provider) == ("toolu_1", False)
    assert (result.provider, result.model) == ("anthropic", "claude-sonnet-4-5-20250929")
    assert result.problems == ()


def test_chat_completions():
    result = normalize(samples.OPENAI)

    assert messages_of(result) == [
        ("assistant_message", "Let me look."),
        ("tool_request", None),
        ("tool_request", None),
    ]
    assert result.events[2].tool_call.arguments == {"where": "thére"}
    assert (result.provider, result.stop_reason_raw) == ("openai", "tool_calls")


def test_several_choices_have_candidate_indexes():
    second = {"index": 1, "message": {"content": "Or not."}, "finish_reason": "length"}
    choices = [*samples.OPENAI["choices"], second]

    result = normalize(samples.OPENAI | {"choices": choices})

    assert [event.candidate_index for event in result.events] == [0, 0, 0, 1]
    assert result.usage.input_tokens == 30


def test_a_refusal_of_openai_is_refused_though_it_stopped():
    message = {"role": "assistant", "content": None, "refusal": "I cannot."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}

    result = normalize(samples.OPENAI | {"choices": [choice]})

    assert messages_of(result) == [("content_refused", "I cannot.")]
    assert (result.stop_reason, result.stop_reason_raw) == ("refused", "stop")


def test_responses():
    result = normalize(samples.RESPONSES)

    assert messages_of(result) == [
        ("thinking", "Looked it up."),
        ("assistant_message", "It is in the docs."),
        ("tool_request", None),
    ]
    (citation,) = result.events[1].citations
    assert (citation.text, citation.source, citation.title) == (
        "in the docs",
        "https://docs.example",
        "Docs",
    )
    call = result.events[2].tool_call
    assert (call.id, call.provider_id) == ("call_1", "fc_1")


@pytest.mark.parametrize(
    ("status", "reason", "canonical", "raw"),
    [
        ("completed", None, "success", "completed"),
        ("incomplete", "max_output_tokens", "max_tokens", "max_output_tokens"),
        ("incomplete", "content_filter", "refused", "content_filter"),
        ("failed", None, "error", "failed"),
        ("cancelled", None, "user_cancelled", "cancelled"),
        ("in_progress", None, None, None),
    ],
)
def test_response_status_decides_the_stop_reason(status, reason, canonical, raw):
    details = {"reason": reason} if reason else None

    result = normalize(samples.RESPONSES | {"status": status, "incomplete_details": details})

    assert (result.stop_reason, result.stop_reason_raw) == (canonical, raw)


def test_tools_that_openai_runs_are_requests_with_results():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    search["action"] = {"type": "search", "query": "rain"}
    mcp = {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": '{"n": 6}'}
    mcp |= {"output": "4", "error": None}

    result = normalize(samples.RESPONSES | {"output": [search, mcp]})

    assert [event.type for event in result.events] == ["tool_request", "tool_response"] * 2
    assert result.events[0].tool_call.name == "web_search"
    assert result.events[0].tool_call.arguments["query"] == "rain"
    assert result.events[2].tool_call.arguments == {"n": 6}
    assert result.events[3].tool_result.content == "4"


def test_google_on_the_wire_and_from_its_client():
    candidate = samples.GOOGLE["candidates"][0]
    parts = [*candidate["content"]["parts"][:2]]
    parts.append({"function_call": {"name": "forecast", "args": {"place": "Lugo"}}})
    grounding = {
        "grounding_chunks": candidate["groundingMetadata"]["groundingChunks"],
        "grounding_supports": [
            {
                "segment": {"end_index": 8, "text": "It rains"},
                "grounding_chunk_indices": [0],
            }
        ],
    }
    snake = {
        "response_id": "resp-g",
        "model_version": "gemini-2.5-pro",
        "candidates": [
            {
                "content": {"parts": parts},
                "finish_reason": "STOP",
                "grounding_metadata": grounding,
            }
        ],
        "usage_metadata": {
            "prompt_token_count": 25,
            "cached_content_token_count": 5,
            "candidates_token_count": 10,
            "thoughts_token_count": 6,
            "tool_use_prompt_token_count": 3,
        },
    }

    wire, client = normalize(samples.GOOGLE, keep_raw=False), normalize(snake, keep_raw=False)

    assert wire == client
    assert messages_of(wire) == [
        ("thinking", "They ask about rain."),
        ("assistant_message", "It rains in Galicia."),
        ("tool_request", None),
    ]
    (citation,) = wire.events[1].citations
    assert (citation.text, citation.source) == ("It rains", "https://aemet.es")
    assert wire.events[2].tool_call.id == "call_0_2"


def test_google_refusing_the_prompt():
    result = normalize({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}})

    assert [event.type for event in result.events] == ["content_refused"]
    assert (result.stop_reason, result.stop_reason_raw) == ("refused", "SAFETY")


def test_calls_of_google_have_no_ids_and_are_answered_by_name():
    messages = [
        {"role": "user", "parts": [{"text": "?"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "a", "args": {}}},
                {"functionCall": {"name": "b", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "b", "response": {"result": "2"}}},
                {"functionResponse": {"name": "a", "response": {"error": "broke"}}},
            ],
        },
    ]

    result = normalize(messages, provider="google")

    answers = [event.tool_result for event in result.events if event.tool_result]
    assert [(each.call_id, each.success) for each in answers] == [
        ("call_1_1", True),
        ("call_1_0", False),
    ]


@pytest.mark.parametrize(
    ("body", "provider", "kind"),
    [
        (
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
            None,
            "rate_limit_error",
        ),
        (
            {"error": {"type": "insufficient_quota", "message": "slow"}},
            "openai",
            "insufficient_quota",
        ),
        (
            {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}},
            "google",
            "RESOURCE_EXHAUSTED",
        ),
        (TimeoutError("slow"), None, "TimeoutError"),
    ],
)
def test_errors_are_events(body, provider, kind):
    result = normalize(body, provider=provider)

    (event,) = result.events
    assert (event.type, event.content, event.failure.type) == ("error", "slow", kind)
    assert result.stop_reason == "error"


def test_a_prompt_that_azure_filters_is_refused():
    result = normalize(
        {"error": {"code": "content_filter", "message": "The prompt was filtered."}},
        provider="azure_openai",
    )

    assert [event.type for event in result.events] == ["content_refused", "error"]
    assert result.stop_reason == "refused"


def test_an_answer_without_content_is_still_an_answer():
    empty = {"index": 0, "message": {"content": None}, "finish_reason": "length"}

    result = normalize(samples.OPENAI | {"choices": [empty]})

    assert messages_of(result) == [("assistant_message", "")]
    assert result.events[0].usage == result.usage
    assert result.stop_reason == "max_tokens"


def test_approval_wait_is_not_counted_as_agent_time():
    approvals = [
        {"id": "a", "approved": True, "requested_at": 10, "resolved_at": 40},
        {"id": "b", "approved": False, "requested_at": 30, "resolved_at": 50},
        {"id": "c", "requested_at": 90},
    ]
    events = normalize({"messages": [], "approvals": approvals}).events

    assert [event.type for event in events] == [
        *("approval_requested", "approval_resolved") * 2,
        "approval_requested",
    ]
    assert events[1].approval.waited_seconds == 30.0
    assert waited_seconds(events, since=0, until=100) == 50.0
    assert active_seconds(events, since=0, until=100) == 50.0
    assert active_seconds((), since=0, until=100) == 100.0


@pytest.mark.parametrize(
    ("resume", "approved"),
    [
        (True, {"one:0": True, "one:1": True, "two": True}),
        (False, {"one:0": False, "one:1": False, "two": False}),
        ("as you like", {"one:0": None, "one:1": None, "two": None}),
        ({"two": True}, {"two": True}),
        (
            {"one": {"decisions": [{"type": "edit"}, {"type": "reject"}]}},
            {"one:0": True, "one:1": False},
        ),
        ({"one": {"decisions": [{"type": "respond"}]}}, {"one:0": None, "one:1": None}),
        ({"two": [{"type": "accept"}]}, {"two": True}),
        ({"two": {"decisions": [None]}}, {"two": None}),
    ],
)
def test_resume_values_are_matched_to_interrupts(resume, approved):
    actions = [{"name": "ship"}, {"name": "pay"}]
    asked = read_interrupts(
        [{"id": "one", "value": {"action_requests": actions}}, {"id": "two", "value": "sure?"}]
    )

    messages_of = read_answers(asked, resume, at=7.0)

    assert {each.id: each.approved for each in messages_of} == approved
    assert {each.resolved_at for each in messages_of} == {7.0}


@pytest.mark.parametrize(
    ("rule", "matched", "confidence"),
    [
        ("slash_command", "/bc", 1.0),
        ("keyword", "invoice", 1.0),
        ("attachment", "a.pdf", 1.0),
        ("model", None, None),
    ],
)
def test_routing_is_a_decision(rule, matched, confidence):
    routing = Routing(candidates=["erp", "search"], chosen="erp", rule=rule, matched=matched)

    decision = routing.as_decision()

    assert decision["decision_type"] == "routing"
    assert (decision["candidates"], decision["chosen"]) == (["erp", "search"], "erp")
    assert decision["output_data"]["rule"] == rule
    assert decision["confidence"] == confidence


def test_a_rule_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"'dice'.*slash_command, keyword, attachment, model"):
        Routing(candidates=[], chosen="x", rule="dice")
