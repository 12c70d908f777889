"""Anthropic's real client against a stand-in: recorded events and unchanged behaviour."""

import asyncio
import contextvars
import gc
import json
import weakref

import anthropic
import pytest

from tests.sdk.clients.reading import LLM, MESSAGES, RETRY, STEP, of_the_client, only_call, told
from tests.sdk.clients.standin import BROKEN, RATE_LIMITED, Reply, error
from tests.sdk.providers import samples
from tracereel import traced_agent, traced_llm
from tracereel.integrations.anthropic import instrument, uninstrument, unwrap, wrap
from tracereel.testing import EventRecorder

ASK = {
    "model": "claude-test",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Weather in Lima?"}],
}
SERVED = "claude-sonnet-4-5-20250929"


@pytest.fixture
def client(standin):
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as made:
        yield wrap(made)


def in_a_loop(standin, work):
    async def run():
        async with anthropic.AsyncAnthropic(api_key="k", base_url=standin.url) as made:
            return await work(wrap(made))

    return asyncio.run(run())


def test_message_is_recorded_as_a_complete_model_call(client, events, registry):
    answer = client.messages.create(**ASK, system="Be brief.", extra_body={"temperature": 0.5})

    assert type(answer) is anthropic.types.Message
    call = only_call(events)
    assert {name: call[name] for name in ("llm_provider", "llm_model", "llm_model_requested")} == {
        "llm_provider": "anthropic",
        "llm_model": SERVED,
        "llm_model_requested": "claude-test",
    }
    assert (call["status"], call["finish_reason"], call["stop_reason"]) == (
        "success",
        "tool_use",
        "success",
    )
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (370, 15)
    assert (call["llm_cached_tokens"], call["llm_cache_creation_tokens"]) == (300, 50)
    assert (call["temperature"], call["max_tokens"], call["was_streamed"]) == (0.5, 100, False)
    assert call["tool_call_ids"] == ["toolu_1"]
    assert call["input_messages"][0] == {"role": "system", "content": "Be brief."}
    assert call["output_messages"][0]["content"][0]["text"] == "Let me look."
    assert call["response_id"] == answer.id
    assert told(events) == ["assistant_message", "tool_request"]
    left = registry.get_sample_value("llm_tokens_remaining", {"llm_provider": "anthropic"})
    assert left == 4321
    counted = {"llm_provider": "anthropic", "llm_model": SERVED, "direction": "input"}
    assert registry.get_sample_value("tracereel_llm_tokens_total", counted) == 370


def test_a_call_belongs_to_the_agent_around_it(client, events):
    @traced_agent("forecaster")
    def ask():
        client.messages.create(**ASK)

    ask()

    (done,) = events.get_events("agent.execution.completed")
    call = only_call(events)
    assert (call["agent_name"], call["parent_span_id"]) == ("forecaster", done["span_id"])
    assert done["llm_tokens_used"] == 385
    for message in events.get_events(MESSAGES):
        assert (message["agent_name"], message["span_id"]) == ("forecaster", call["span_id"])


@pytest.mark.parametrize(
    "way", ["create", "helper", "raw_lines", "raw_response", "async", "ahelper"]
)
def test_a_stream_gives_the_same_call_as_the_whole_answer(way, client, standin, events):
    standin.will(Reply(answer=samples.ANTHROPIC), Reply(answer=samples.ANTHROPIC))
    client.messages.create(**ASK)
    whole = only_call(events)
    messages = [event.get("content") for event in events.get_events(MESSAGES)]
    events.clear()

    if way == "create":
        chunks = list(client.messages.create(**ASK, stream=True))
        assert chunks[-1].type == "message_stop"
    elif way == "helper":
        with client.messages.stream(**ASK) as stream:
            assert "".join(stream.text_stream) == "Two weeks, as the law says."
            assert stream.get_final_message().stop_reason == "tool_use"
    elif way == "raw_lines":
        asked = client.messages.with_streaming_response.create(**ASK, stream=True)
        with asked as response:
            assert any("message_stop" in line for line in response.iter_lines())
    elif way == "raw_response":
        raw = client.messages.with_raw_response.create(**ASK, stream=True)
        assert raw.headers["request-id"] == "req_anthropic"
        assert list(raw.parse())
    elif way == "async":

        async def work(client):
            return [chunk async for chunk in await client.messages.create(**ASK, stream=True)]

        assert in_a_loop(standin, work)[-1].type == "message_stop"
    else:

        async def work(client):
            async with client.messages.stream(**ASK) as stream:
                return "".join([part async for part in stream.text_stream])

        assert in_a_loop(standin, work) == "Two weeks, as the law says."

    streamed = only_call(events)
    assert streamed["was_streamed"] is True
    assert streamed["time_to_first_token_ms"] <= streamed["duration_ms"]
    assert of_the_client(streamed) == of_the_client(whole)
    assert [event.get("content") for event in events.get_events(MESSAGES)] == messages


def test_an_awaited_message_is_recorded(standin, events):
    async def work(client):
        return await client.messages.create(**ASK)

    assert in_a_loop(standin, work).stop_reason == "tool_use"
    assert only_call(events)["llm_tokens_used"] == 385


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_retries_of_the_client_are_attempts(kind, client, standin, events):
    standin.will(RATE_LIMITED, BROKEN)

    @traced_agent("patient")
    def ask():
        if kind == "sync":
            client.messages.create(**ASK)
        else:
            in_a_loop(standin, lambda client: client.messages.create(**ASK))

    ask()

    first, second = events.get_events(RETRY)
    assert (first["retry_attempt"], first["retry_reason"]) == (1, "rate_limited")
    assert (first["original_error"], first["delay_seconds"]) == ("429 Too Many Requests", 0.01)
    assert (first["retry_strategy"], first["max_attempts"]) == ("retry_after", 3)
    assert (second["retry_attempt"], second["retry_reason"]) == (2, "error")
    assert second["original_error"] == "500 Internal Server Error"
    call = only_call(events)
    assert (call["status"], call["attempt"], call["retry_count"]) == ("success", 3, 2)
    (last,) = events.get_events(STEP)
    assert (last["step_type"], last["attempt"], last["status"]) == ("attempt", 3, "success")
    for attempt in (first, second, last):
        assert attempt["parent_span_id"] == call["span_id"]
        assert attempt["span_start_unix_nano"] <= attempt["span_end_unix_nano"]
    assert first["span_end_unix_nano"] <= second["span_start_unix_nano"]
    (done,) = events.get_events("agent.execution.completed")
    assert (done["was_retried"], done["retry_count"]) == (True, 2)


def test_broken_connection_is_retried_with_a_reason(client, standin, events, monkeypatch):
    monkeypatch.setattr(anthropic._base_client, "INITIAL_RETRY_DELAY", 0.01)
    standin.will(Reply(drop=True))

    client.messages.create(**ASK)

    (retry,) = events.get_events(RETRY)
    assert (retry["retry_reason"], retry["retry_strategy"]) == ("error", "exponential_backoff")
    assert "APIConnectionError" in retry["original_error"]
    assert 0 < retry["delay_seconds"] <= 0.02


def test_error_is_propagated_unchanged_and_recorded(client, standin, events):
    standin.will(error(400, "too long", "invalid_request_error"))

    with pytest.raises(anthropic.BadRequestError, match="too long") as raised:
        client.messages.create(**ASK)

    assert raised.value.status_code == 400
    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "BadRequestError")
    assert call["error_category"] == "validation"
    assert events.get_events(RETRY) == []


def test_retries_that_are_used_up_end_with_the_error(client, standin, events):
    standin.will(RATE_LIMITED, RATE_LIMITED)

    with pytest.raises(anthropic.RateLimitError):
        client.with_options(max_retries=1).messages.create(**ASK)

    assert len(events.get_events(RETRY)) == 1
    call = only_call(events)
    assert (call["status"], call["error_code"], call["attempt"]) == ("failed", "RATE_LIMITED", 2)
    assert events.get_events(STEP)[0]["status"] == "failed"


@pytest.mark.parametrize("way", ["break", "close", "drop", "helper", "async"])
def test_abandoned_stream_is_cancelled_with_partial_output(way, client, standin, events):
    if way == "break":
        for chunk in client.messages.create(**ASK, stream=True):
            if chunk.type == "content_block_delta":
                break
        del chunk
    elif way == "close":
        stream = client.messages.create(**ASK, stream=True)
        next(stream)
        stream.close()
    elif way == "drop":
        stream = client.messages.create(**ASK, stream=True)
        next(stream)
        del stream
    elif way == "helper":
        with client.messages.stream(**ASK) as stream:
            next(stream)
    else:

        async def work(client):
            async with await client.messages.create(**ASK, stream=True) as stream:
                async for _ in stream:
                    break

        in_a_loop(standin, work)
    gc.collect()

    call = only_call(events)
    assert (call["status"], call["llm_model"]) == ("cancelled", SERVED)
    assert call["stop_reason"] == "user_cancelled"


def test_a_program_that_fails_while_it_reads_has_left_the_stream(client, events):
    with pytest.raises(KeyError), client.messages.stream(**ASK) as stream:  # noqa: PT012
        next(stream)
        raise KeyError("ours")

    assert only_call(events)["status"] == "cancelled"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_connection_cut_within_a_stream_is_a_failure(kind, client, standin, events):
    standin.will(Reply(cut_after=4))

    async def work(client):
        return [chunk async for chunk in await client.messages.create(**ASK, stream=True)]

    def read():
        if kind == "async":
            return in_a_loop(standin, work)
        return list(client.messages.create(**ASK, stream=True))

    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|chunked"):
        read()

    call = only_call(events)
    assert (call["status"], call["stop_reason"]) == ("failed", "error")
    assert call["llm_model"] == SERVED


def test_truncated_stream_is_recorded_as_failed_without_an_exception(client, standin, events):
    standin.will(Reply(end_after=4))

    assert len(list(client.messages.create(**ASK, stream=True))) == 3

    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", "StreamCut")


def test_an_error_in_the_midst_of_a_stream_is_the_clients_own(client, standin, events):
    trouble = {"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}}
    frame = b"event: error\ndata: %s\n\n" % json.dumps(trouble).encode()
    standin.will(Reply(frames=[frame]))

    with pytest.raises(anthropic.APIStatusError, match="too busy") as raised:
        list(client.messages.create(**ASK, stream=True))

    call = only_call(events)
    assert (call["status"], call["error_type"]) == ("failed", type(raised.value).__name__)
    assert told(events)[-1] == "error"


def test_invalid_json_frames_fail_as_without_wrapping(client, standin, events):
    standin.will(Reply(frames=[b"event: message_start\ndata: {nonsense\n\n"]))

    with pytest.raises(ValueError, match="Expecting"):
        list(client.messages.create(**ASK, stream=True))

    assert only_call(events)["status"] == "failed"


def test_invalid_json_response_is_recorded_as_the_client_handles_it(client, standin, events):
    standin.will(Reply(body=b"{nonsense"))
    bare = anthropic.Anthropic(api_key="k", base_url=standin.url)

    def outcome(one):
        standin.will(Reply(body=b"{nonsense"))
        try:
            return type(one.messages.create(**ASK))
        except Exception as raised:
            return type(raised)

    with bare:
        assert outcome(client) is outcome(bare)
    assert len(events.get_events(LLM)) == 1


def test_raw_responses_are_recorded_and_still_parse(client, events):
    raw = client.messages.with_raw_response.create(**ASK)

    assert raw.http_response.status_code == 200
    assert raw.parse().usage.input_tokens == 20
    assert only_call(events)["llm_tokens_used"] == 385


def test_a_body_that_is_read_late_ends_the_call_when_it_is(client, events):
    with client.messages.with_streaming_response.create(**ASK) as response:
        assert events.get_events(LLM) == []
        assert response.parse().stop_reason == "tool_use"

    assert only_call(events)["llm_tokens_used"] == 385


def test_tool_results_are_matched_to_their_call(client, standin, events):
    answer = client.messages.create(**ASK)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "24 degrees"}
    asked = [
        *ASK["messages"],
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result]},
    ]
    events.clear()
    said = {**samples.ANTHROPIC, "content": [{"type": "text", "text": "It is warm."}]}
    standin.will(Reply(answer=said), Reply(answer=said))

    client.messages.create(**ASK | {"messages": asked})
    client.messages.create(**ASK | {"messages": asked})

    assert told(events)[0] == "tool_response"
    (response,) = [
        event for event in events.get_events(MESSAGES) if event["message_type"] == "tool_response"
    ]
    assert (response["tool_call_id"], response["tool_name"]) == ("toolu_1", "get_weather")
    assert (response["content"], response["tool_success"]) == ("24 degrees", True)
    assert response["span_id"] == events.get_events(LLM)[0]["span_id"]


def test_wrap_returns_the_same_client_and_can_be_undone(standin, events):
    client = anthropic.Anthropic(api_key="k", base_url=standin.url)
    before = dict(vars(client))

    assert wrap(client) is client
    assert wrap(client) is client
    assert type(client) is anthropic.Anthropic
    client.messages.create(**ASK)
    assert unwrap(client) is client
    assert set(vars(client)) - set(before) == {"messages"}
    client.messages.create(**ASK)

    assert len(events.get_events(LLM)) == 1
    client.close()


def test_copies_are_recorded_until_the_original_is_not_wrapped(client, events):
    copy = client.with_options(timeout=5).copy(max_retries=0)

    copy.messages.create(**ASK)
    copy.with_options(max_retries=1).beta.messages.create(**ASK)

    assert len(events.get_events(LLM)) == 2


def test_wrapped_client_is_garbage_collected(standin):
    client = wrap(anthropic.Anthropic(api_key="k", base_url=standin.url))
    gone = weakref.ref(client)
    gc.collect()

    bare = anthropic.Anthropic(api_key="k", base_url=standin.url)
    bare_gone = weakref.ref(bare)
    del client, bare
    gc.collect()

    assert (gone(), bare_gone()) == (None, None)


def test_other_requests_are_left_alone(client, events):
    client.messages.count_tokens(model="claude-test", messages=ASK["messages"])

    assert list(events) == []


def test_every_client_is_recorded_between_instrument_and_uninstrument(standin, events):
    early = anthropic.Anthropic(api_key="k", base_url=standin.url)
    request = anthropic.Anthropic.request
    instrument()
    instrument()
    try:
        late = wrap(anthropic.Anthropic(api_key="k", base_url=standin.url))
        early.messages.create(**ASK)
        late.with_options(max_retries=0).messages.create(**ASK)
        assert len(events.get_events(LLM)) == 2

        async def work():
            async with anthropic.AsyncAnthropic(api_key="k", base_url=standin.url) as made:
                await made.messages.create(**ASK)

        asyncio.run(work())
        assert len(events.get_events(LLM)) == 3
    finally:
        uninstrument()
    assert anthropic.Anthropic.request is request
    early.messages.create(**ASK)

    assert len(events.get_events(LLM)) == 3
    early.close()
    late.close()


def test_traced_llm_function_takes_usage_from_its_client(client, standin, events):
    standin.will(RATE_LIMITED)

    @traced_llm("my model", provider="mine")
    def ask():
        return client.messages.create(**ASK).id

    ask()

    call = only_call(events)
    assert (call["llm_model"], call["llm_tokens_used"]) == (SERVED, 385)
    assert (call["attempt"], len(events.get_events(RETRY))) == (2, 1)


def test_without_content_no_text_leaves(client):
    with EventRecorder(capture_content=False) as recorded:
        client.messages.create(**ASK)
        with client.messages.stream(**ASK) as stream:
            stream.until_done()

    assert recorded.get_events(LLM)[0]["llm_tokens_used"] == 385
    assert "Lima" not in json.dumps(recorded.events)
    assert "look" not in json.dumps(recorded.events)


def test_nothing_is_recorded_while_recording_is_off(client, monkeypatch):
    from tracereel._core import recorder

    monkeypatch.setattr(recorder, "_active", None)

    assert client.messages.create(**ASK).stop_reason == "tool_use"
    assert list(client.messages.create(**ASK, stream=True))


@pytest.mark.parametrize("wrong", [None, "client", object()])
def test_wrapping_an_unsupported_object_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"anthropic\.Anthropic"):
        wrap(wrong)


def test_internal_errors_never_reach_the_program(client, events, monkeypatch):
    """The client works as usual even if every internal step of ours fails."""
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    from tracereel.integrations import _model_call

    def broken(*_args, **_kwargs):
        raise RuntimeError("ours")

    for name in ("answered", "complete_with", "headers", "retried", "failed", "detach"):
        monkeypatch.setattr(_model_call.ModelCall, name, broken)

    def ask():
        assert client.messages.create(**ASK).stop_reason == "tool_use"
        assert list(client.messages.create(**ASK, stream=True))
        monkeypatch.setattr(_model_call.ModelCall, "__init__", broken)
        assert client.messages.create(**ASK).stop_reason == "tool_use"

    contextvars.copy_context().run(ask)
