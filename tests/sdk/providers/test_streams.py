"""Running streams: event per chunk, endings and timings."""

import time
from random import Random
from types import SimpleNamespace

import pytest

from tests.sdk.providers import samples, wire
from tracereel.providers import BatchResultNormalizer, adapter_for, message_fields


class Clock:
    """Manually set clock."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def feed(adapter, chunks):
    return [event for chunk in chunks for event in adapter.process_chunk(chunk)]


def delta(index=0, **fields):
    return {"type": "content_block_delta", "index": index, "delta": fields}


def block(index=0, **fields):
    return {"type": "content_block_start", "index": index, "content_block": fields}


START = {
    "type": "message_start",
    "message": {
        "id": "m1",
        "model": "claude-x",
        "content": [],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}
END = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([delta(type="thinking_delta", thinking="hm")], "reasoning_delta"),
        ([delta(type="text_delta", text="hi")], "content_delta"),
        (
            [
                block(type="tool_use", id="t", name="f", input={}),
                delta(type="input_json_delta", partial_json='{"a": 1}'),
                {"type": "content_block_stop", "index": 0},
            ],
            "tool_call",
        ),
        (
            [delta(type="citations_delta", citation={"cited_text": "x", "document_index": 0})],
            "citation",
        ),
        ([END[0]], "usage"),
        ([delta(type="signature_delta", signature="s")], None),
        ([{"type": "ping"}], None),
        ([{"type": "text", "text": "hi", "snapshot": "hi"}], None),
    ],
)
def test_each_event_of_anthropic(chunks, kind):
    adapter = adapter_for("anthropic")
    adapter.process_chunk(START)

    events = feed(adapter, chunks)

    assert [event.type for event in events] == ([] if kind is None else [kind])
    assert adapter.problems == ()


@pytest.mark.parametrize(
    ("provider", "answer", "stream"),
    [
        ("anthropic", samples.ANTHROPIC, wire.anthropic_events),
        ("openai", samples.OPENAI, wire.openai_chunks),
        ("openai", samples.RESPONSES, wire.responses_events),
        ("azure_openai", samples.OPENAI, wire.openai_chunks),
        ("google", samples.GOOGLE, wire.google_chunks),
    ],
)
def test_stream_has_one_start_one_end_and_all_content_between(provider, answer, stream):
    adapter = adapter_for(provider)
    whole = BatchResultNormalizer(provider=provider).normalize(answer)

    events = [*feed(adapter, stream(answer, Random(3))), *adapter.finish()]

    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("stream_start", "stream_end")
    assert (kinds.count("stream_start"), kinds.count("stream_end")) == (1, 1)
    assert [event.original_index for event in events] == list(range(len(events)))
    said = "".join(event.content for event in events if event.type == "content_delta")
    thought = "".join(event.reasoning for event in events if event.type == "reasoning_delta")
    assert said == whole.text
    assert thought == "".join(e.content or "" for e in whole.events if e.type == "thinking")
    assert [e.tool_call for e in events if e.type == "tool_call"] == [
        e.tool_call for e in whole.events if e.type == "tool_request"
    ]
    assert [e.citation for e in events if e.type == "citation"] == [
        citation for e in whole.events for citation in e.citations
    ]
    end = events[-1]
    assert (end.usage, end.stop_reason, end.stop_reason_raw) == (
        whole.usage,
        whole.stop_reason,
        whole.stop_reason_raw,
    )
    assert (end.is_final, end.is_streaming, events[1].is_streaming) == (True, False, True)
    assert {event.model for event in events[1:]} == {whole.model}
    assert {event.persistence_strategy for event in events} == {"transient"}
    assert all("message_type" in message_fields(event) for event in events)


def test_chunks_may_be_objects():
    def as_object(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: as_object(each) for key, each in value.items()})
        return [as_object(each) for each in value] if isinstance(value, list) else value

    for provider, answer, stream in (
        ("anthropic", samples.ANTHROPIC, wire.anthropic_events),
        ("openai", samples.OPENAI, wire.openai_chunks),
        ("google", samples.GOOGLE, wire.google_chunks),
    ):
        adapter = adapter_for(provider)
        feed(adapter, [as_object(chunk) for chunk in stream(answer, Random(1))])
        adapter.finish()

        assert adapter.result() == BatchResultNormalizer(provider=provider).normalize(answer)


def test_content_that_came_with_the_start_is_not_counted_twice():
    content = [{"type": "text", "text": "Hello"}]
    start = {"type": "message_start", "message": {**START["message"], "content": content}}
    streamed, whole = adapter_for("anthropic"), adapter_for("anthropic")

    events = feed(
        streamed, [start, block(type="text", text=""), delta(type="text_delta", text="Hello"), *END]
    )
    alone = feed(whole, [start, *END])

    assert [e.content for e in events if e.type == "content_delta"] == ["Hello"]
    assert [e.content for e in alone if e.type == "content_delta"] == ["Hello"]
    assert streamed.result().text == whole.result().text == "Hello"


def test_counts_that_grow_are_not_added_up():
    adapter = adapter_for("anthropic")
    grown = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 12}}

    feed(adapter, [START, grown, *END])

    assert adapter.result().usage.input_tokens == 9
    assert adapter.result().usage.output_tokens == 20


def test_counts_repeated_with_every_chunk_are_not_added_up():
    adapter = adapter_for("openai")
    for count in (1, 2, 3):
        usage = {"prompt_tokens": 5, "completion_tokens": count}
        adapter.process_chunk({"choices": [{"delta": {"content": "x"}}], "usage": usage})

    assert (adapter.result().usage.input_tokens, adapter.result().usage.output_tokens) == (5, 3)


def test_a_citation_keeps_text_source_document_and_location():
    adapter = adapter_for("anthropic")
    given = samples.ANTHROPIC["content"][2]["citations"][0]

    _, event = feed(adapter, [START, delta(type="citations_delta", citation=given)])

    citation = event.citation
    assert (citation.text, citation.source, citation.document_index) == ("two weeks", "The law", 1)
    assert (citation.location.start, citation.location.end, citation.location.unit) == (
        10,
        19,
        "char",
    )


def test_the_current_block_is_known_and_reset_forgets_everything():
    adapter = adapter_for("anthropic")
    feed(adapter, [START, block(2, type="text", text=""), delta(2, type="text_delta", text="x")])
    assert adapter.current_block_index == 2
    adapter.abandon()

    adapter.reset()

    assert (adapter.current_block_index, adapter.ended) == (0, False)
    assert feed(adapter, [START])[0].type == "stream_start"
    assert adapter.result().text == ""


def test_first_token_gaps_and_rate_are_measured():
    clock = Clock()
    adapter = adapter_for("anthropic", clock=clock, now=lambda: 5_000.0)
    for at, chunk in (
        (100.5, START),
        (102.0, delta(type="thinking_delta", thinking="a")),
        (103.0, delta(type="text_delta", text="b")),
        (106.0, delta(type="text_delta", text="c")),
        (107.0, END[0]),
        (107.5, END[1]),
    ):
        clock.time = at
        events = adapter.process_chunk(chunk)

    timings = events[-1].timings
    assert timings.first_token_seconds == 2.0
    assert timings.longest_gap_seconds == 3.0
    assert timings.mean_gap_seconds == 2.0
    assert timings.duration_seconds == 7.5
    assert timings.tokens_per_second == 5.0
    assert events[-1].timestamp == 5_007.5


def test_a_stream_without_tokens_has_no_rate():
    timings = adapter_for("google").timings()

    assert timings.first_token_seconds is None
    assert timings.tokens_per_second is None
    assert timings.longest_gap_seconds is None


PARTS = {
    "anthropic": [START, delta(type="text_delta", text="half")],
    "openai": [{"id": "m1", "choices": [{"index": 0, "delta": {"content": "half"}}]}],
    "google": [{"candidates": [{"content": {"parts": [{"text": "half"}]}}]}],
    "langchain": [
        {
            "event": "on_chat_model_stream",
            "run_id": "r",
            "data": {"chunk": {"type": "AIMessageChunk", "content": "half"}},
        }
    ],
}


@pytest.mark.parametrize("provider", PARTS)
def test_an_abandoned_stream_ends_as_cancelled(provider):
    adapter = adapter_for(provider)
    feed(adapter, PARTS[provider])

    (end,) = adapter.abandon()

    assert (end.type, end.stop_reason, end.failure) == ("stream_end", "user_cancelled", None)
    assert (adapter.result().text, adapter.result().stop_reason) == ("half", "user_cancelled")


@pytest.mark.parametrize("provider", PARTS)
def test_a_failed_stream_ends_with_its_error(provider):
    adapter = adapter_for(provider)
    feed(adapter, PARTS[provider])

    (end,) = adapter.fail(ConnectionResetError("peer went away"))

    assert (end.stop_reason, end.failure.type) == ("error", "ConnectionResetError")
    assert [event.type for event in adapter.result().events] == ["assistant_message", "error"]
    assert adapter.result().stop_reason == "error"


@pytest.mark.parametrize("provider", PARTS)
def test_a_stream_that_stops_in_the_middle_was_cut(provider):
    adapter = adapter_for(provider)
    feed(adapter, PARTS[provider])

    (end,) = adapter.finish()

    assert (end.stop_reason, end.failure.type) == ("error", "StreamCut")


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google", "langchain"])
def test_a_stream_without_a_single_chunk_still_begins_and_ends(provider):
    adapter = adapter_for(provider)

    events = adapter.finish()

    assert [event.type for event in events] == ["stream_start", "stream_end"]
    assert events[-1].stop_reason == "error"


@pytest.mark.parametrize(
    ("provider", "frame", "kind"),
    [
        (
            "anthropic",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "overloaded_error",
        ),
        ("openai", {"error": {"type": "server_error", "message": "Overloaded"}}, "server_error"),
        (
            "openai",
            {"type": "error", "code": "server_error", "message": "Overloaded"},
            "server_error",
        ),
        (
            "openai",
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "server_error", "message": "Overloaded"},
                },
            },
            "server_error",
        ),
        (
            "google",
            {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}},
            "UNAVAILABLE",
        ),
    ],
)
def test_an_error_in_the_stream_ends_it(provider, frame, kind):
    adapter = adapter_for(provider)

    end = adapter.process_chunk(frame)[-1]

    assert (end.type, end.stop_reason, end.failure.type) == ("stream_end", "error", kind)
    assert end.failure.message == "Overloaded"
    assert adapter.result().events[-1].type == "error"


def test_no_events_after_the_end_of_a_stream():
    adapter = adapter_for("anthropic")
    feed(adapter, [START, *END])

    assert feed(adapter, [delta(type="text_delta", text="late")]) == []
    assert (adapter.finish(), adapter.abandon(), adapter.fail("x")) == ([], [], [])


def test_azure_begins_with_the_prompts_filters_and_names_what_it_filtered():
    adapter = adapter_for("azure_openai")
    filtered = {"violence": {"filtered": True}, "hate": {"filtered": False}}
    choice = {"index": 0, "delta": {}, "finish_reason": "content_filter"}

    feed(
        adapter,
        [
            {"id": "", "model": "", "choices": [], "prompt_filter_results": [{}]},
            {"id": "c1", "model": "gpt-4o-2024", "choices": [{"delta": {"content": "I"}}]},
            {"id": "c1", "choices": [{**choice, "content_filter_results": filtered}]},
        ],
    )
    adapter.finish()

    result = adapter.result()
    assert [(event.type, event.content) for event in result.events] == [
        ("assistant_message", "I"),
        ("content_refused", "filtered: violence"),
    ]
    assert (result.model, result.stop_reason) == ("gpt-4o-2024", "refused")


def test_default_clock_is_the_system_clock():
    before = time.time()
    (start, *_) = adapter_for("anthropic").process_chunk(START)

    assert before - 1 <= start.timestamp <= time.time() + 1
