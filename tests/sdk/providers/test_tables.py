"""Every row of the tables: stop reasons, usage locations, capabilities, event names."""

import pytest

from tests.sdk.providers import samples
from tracereel.events import parse_event
from tracereel.providers import (
    BatchResultNormalizer,
    Usage,
    adapter_for,
    canonical_stop_reason,
    capabilities_for,
    message_fields,
    read_usage,
    to_event_store,
    usage_of,
)
from tracereel.providers.names import UnknownProviderError


@pytest.mark.parametrize(
    ("provider", "word", "canonical"),
    [
        ("anthropic", "end_turn", "success"),
        ("anthropic", "tool_use", "success"),
        ("anthropic", "max_tokens", "max_tokens"),
        ("anthropic", "stop_sequence", "success"),
        ("anthropic", "pause_turn", "paused"),
        ("anthropic", "refusal", "refused"),
        ("anthropic", "model_context_window_exceeded", "max_tokens"),
        ("openai", "stop", "success"),
        ("openai", "tool_calls", "success"),
        ("openai", "function_call", "success"),
        ("openai", "length", "max_tokens"),
        ("openai", "content_filter", "refused"),
        ("openai", "completed", "success"),
        ("openai", "max_output_tokens", "max_tokens"),
        ("openai", "failed", "error"),
        ("openai", "cancelled", "user_cancelled"),
        ("azure_openai", "content_filter", "refused"),
        ("google", "STOP", "success"),
        ("google", "MAX_TOKENS", "max_tokens"),
        ("google", "SAFETY", "refused"),
        ("google", "PROHIBITED_CONTENT", "refused"),
        ("google", "MALFORMED_FUNCTION_CALL", "error"),
        ("langchain", "end_turn", "success"),
        ("langchain", "guardrail_intervened", "refused"),
        ("langchain", "error", "error"),
        ("langchain", "user_cancelled", "user_cancelled"),
    ],
)
def test_each_stop_reason(provider, word, canonical):
    message = {"type": "ai", "content": "x", "response_metadata": {"stop_reason": word}}

    assert canonical_stop_reason(word, provider) == (canonical, None)
    result = BatchResultNormalizer(provider=provider).normalize([message])
    assert (result.stop_reason, result.stop_reason_raw) == (canonical, word)


def test_an_unknown_stop_reason_is_a_success_with_a_warning():
    message = {"type": "ai", "content": "x", "response_metadata": {"stop_reason": "bored"}}

    result = BatchResultNormalizer(provider="anthropic").normalize([message])

    (problem,) = result.problems
    assert (result.stop_reason, result.stop_reason_raw) == ("success", "bored")
    assert problem.code == "unknown_stop_reason"
    assert "'bored'" in problem.message
    assert "end_turn" in problem.message
    assert result.events[0].problems == (problem,)


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("pause_turn", ["assistant_message", "turn_paused"]),
        ("refusal", ["assistant_message", "content_refused"]),
        ("end_turn", ["assistant_message"]),
    ],
)
def test_pauses_and_refusals_are_events_of_their_own(word, kinds):
    result = BatchResultNormalizer().normalize(
        samples.ANTHROPIC | {"content": [{"type": "text", "text": "I"}], "stop_reason": word}
    )

    assert [event.type for event in result.events] == kinds


USED = {"input_tokens": 7, "output_tokens": 3}


@pytest.mark.parametrize(
    "message",
    [
        {"response_metadata": {"usage": USED}},
        {"usage_metadata": USED},
        {"response_metadata": {"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
        {
            "response_metadata": {
                "usage_metadata": {"prompt_token_count": 7, "candidates_token_count": 3}
            }
        },
        {
            "response_metadata": {
                "amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 3}
            }
        },
        {"response_metadata": {"usage": {"inputTokens": 7, "outputTokens": 3}}},
        {"usage": USED},
        {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3}},
        {"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}},
        {"llm_output": {"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
        {"llm_output": {"usage": USED}},
        {"generation_info": {"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}}},
        {"generation_info": {"usage_metadata": {"prompt_token_count": 7}, "x": 0}},
        {"additional_kwargs": {"usage": USED}},
    ],
)
def test_each_place_where_usage_hides(message):
    found = usage_of({"type": "ai", "content": "x", **message})

    assert found.input_tokens == 7
    assert found.output_tokens in (3, 0)


def test_usage_locations_are_read_in_order_and_merged():
    message = {
        "response_metadata": {"usage": {"input_tokens": 7, "output_tokens": 3}},
        "usage_metadata": {
            "input_tokens": 99,
            "output_tokens": 99,
            "output_token_details": {"reasoning": 2},
        },
    }

    assert usage_of(message) == Usage(input_tokens=7, output_tokens=3, reasoning_tokens=2)
    assert usage_of({"content": "x"}) is None


@pytest.mark.parametrize(
    ("reported", "meant"),
    [
        (
            samples.ANTHROPIC["usage"],
            Usage(
                input_tokens=150,
                output_tokens=50,
                cached_tokens=40,
                cache_creation_tokens=10,
                reasoning_tokens=20,
            ),
        ),
        (
            samples.OPENAI["usage"],
            Usage(input_tokens=30, output_tokens=12, cached_tokens=8, reasoning_tokens=4),
        ),
        (
            samples.RESPONSES["usage"],
            Usage(input_tokens=20, output_tokens=15, cached_tokens=5, reasoning_tokens=9),
        ),
        (
            samples.GOOGLE["usageMetadata"],
            Usage(input_tokens=28, output_tokens=16, cached_tokens=5, reasoning_tokens=6),
        ),
        (
            {
                "input_tokens": 150,
                "output_tokens": 50,
                "input_token_details": {"cache_read": 40, "cache_creation": 10},
                "output_token_details": {"reasoning": 20},
            },
            Usage(
                input_tokens=150,
                output_tokens=50,
                cached_tokens=40,
                cache_creation_tokens=10,
                reasoning_tokens=20,
            ),
        ),
        ({"input_tokens": "7", "output_tokens": -1}, None),
    ],
    ids=["anthropic", "openai", "responses", "google", "langchain", "malformed"],
)
def test_input_has_its_cached_parts_and_output_its_reasoning(reported, meant):
    assert read_usage(reported) == meant


def test_usage_is_on_one_event_of_an_answer_so_that_sums_agree():
    result = BatchResultNormalizer().normalize(samples.ANTHROPIC)

    counted = [event.usage for event in result.events if event.usage is not None]
    assert counted == [result.usage]


@pytest.mark.parametrize("capability", ["streaming", "tools", "vision"])
@pytest.mark.parametrize("provider", ["anthropic", "azure-openai", "openai", "google"])
def test_all_providers_stream_call_tools_and_see(provider, capability):
    assert getattr(capabilities_for(provider), capability) is True


@pytest.mark.parametrize(
    ("provider", "model", "reasoning", "citations", "web_search"),
    [
        ("anthropic", None, True, True, True),
        ("azure-openai", None, False, False, False),
        ("azure-openai", "o1", True, False, False),
        ("openai", None, False, False, False),
        ("openai", "o1-2024-12-17", True, False, False),
        ("openai", "gpt-4o", False, False, False),
        ("openai", "gpt-5-mini", True, False, False),
        ("google", None, False, False, False),
        ("google", "models/gemini-2.5-pro", True, True, True),
        ("anthropic", "eu.anthropic.claude-3-haiku-20240307-v1:0", False, True, False),
        ("anthropic", "claude-sonnet-4-5", True, True, True),
    ],
)
def test_reasoning_citations_and_search_differ(provider, model, reasoning, citations, web_search):
    found = capabilities_for(provider, model)

    assert (found.reasoning, found.citations, found.web_search) == (
        reasoning,
        citations,
        web_search,
    )


def test_unknown_provider_error_lists_the_known_ones():
    with pytest.raises(UnknownProviderError) as adapter:
        adapter_for("mistral")
    with pytest.raises(UnknownProviderError) as capabilities:
        capabilities_for("mistral")

    for name in ("'mistral'", "anthropic", "azure_openai", "google", "openai"):
        assert name in str(adapter.value)
        assert name in str(capabilities.value)
    assert "langchain" in str(adapter.value)


@pytest.mark.parametrize(
    ("alias", "provider"),
    [
        ("Anthropic", "anthropic"),
        ("azure-openai", "azure_openai"),
        ("azure.ai.openai", "azure_openai"),
        ("gcp.gemini", "google"),
        ("LangGraph", "langchain"),
    ],
)
def test_providers_are_known_by_other_names_too(alias, provider):
    assert adapter_for(alias).provider == provider


EVERYTHING = {
    "messages": [
        {"type": "human", "content": "?"},
        {
            "type": "ai",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            ],
        },
        {"type": "tool", "tool_call_id": "t", "content": "r"},
        {"type": "ai", "content": "half", "response_metadata": {"stop_reason": "pause_turn"}},
        {"type": "ai", "content": "", "response_metadata": {"stop_reason": "refusal"}},
    ],
    "approvals": [{"id": "a", "approved": True, "requested_at": 1, "resolved_at": 5}],
}


def test_each_name_of_the_event_store_and_of_the_frontend():
    normalizer = BatchResultNormalizer()
    turn = normalizer.normalize(EVERYTHING, whole_turn=True).events
    failed = normalizer.normalize(RuntimeError("broke")).events

    names = {
        event.type: (view["event_type"], view["type"], view["persistence_state"])
        for event in (*turn, *failed)
        if (view := to_event_store(event, "spooled")) is not None
    }

    assert names == {
        "session_start": (None, "session_start", "transient"),
        "user_message": ("user_message_sent", "user_message_confirmed", "persisted"),
        "thinking": ("agent_thinking_block", "thinking_complete", "transient"),
        "tool_request": ("tool_use_requested", "tool_use", "transient"),
        "tool_response": ("tool_use_completed", "tool_result", "transient"),
        "assistant_message": ("agent_message_sent", "message", "persisted"),
        "error": ("error_occurred", "error", "transient"),
        "complete": (None, "complete", "transient"),
        "approval_requested": (None, "approval_requested", "persisted"),
        "approval_resolved": (None, "approval_resolved", "persisted"),
        "turn_paused": (None, "turn_paused", "persisted"),
        "content_refused": (None, "content_refused", "persisted"),
    }


@pytest.mark.parametrize("emitted", [None, "dropped", "held"])
def test_nothing_is_persisted_before_it_was_written(emitted):
    events = BatchResultNormalizer().normalize(EVERYTHING, whole_turn=True).events

    states = {to_event_store(event, emitted)["persistence_state"] for event in events}

    assert states == {"transient"}


def test_the_view_carries_what_such_systems_read():
    events = BatchResultNormalizer(session_id="s").normalize(samples.APPENDIX_A).events

    request, response = (to_event_store(event)["data"] for event in events[2:4])

    assert request["tool_use_id"] == response["tool_use_id"] == "toolu_01"
    assert request["tool_args"] == {"customer": "X"}
    assert request["token_usage"] == {"input": 10, "output": 5}
    assert (response["tool_result"], response["success"]) == ("Order created: SO-001", True)


def test_parts_of_a_stream_have_no_place_in_the_view():
    adapter = adapter_for("anthropic")
    start = {"type": "message_start", "message": {"id": "m"}}
    delta = {"type": "text_delta", "text": "hi"}
    events = adapter.process_chunk(start)
    events += adapter.process_chunk({"type": "content_block_delta", "index": 0, "delta": delta})

    assert [event.type for event in events] == ["stream_start", "content_delta"]
    assert [to_event_store(event) for event in events] == [None, None]


def test_every_event_fits_the_contract():
    turn = BatchResultNormalizer(session_id="s").normalize(EVERYTHING, whole_turn=True)
    whole = BatchResultNormalizer().normalize(samples.ANTHROPIC)
    envelope = {"event_id": "e", "timestamp": "2026-01-01T00:00:00Z", "trace_id": "t"}
    for event in (*turn.events, *whole.events):
        parsed = parse_event({**envelope, **message_fields(event)})

        assert parsed.message_type == event.type
        assert parsed.role == event.role
        assert parsed.persistence_strategy == event.persistence_strategy
        assert parsed.llm_model == event.model
        assert parsed.original_index == event.original_index
