"""Malformed input raises nothing; invalid parts are reported and the rest is kept."""

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sdk.providers import samples, wire
from tracereel._runtime.sse_parser import MAX_EVENT_BYTES
from tracereel.providers import BatchResultNormalizer, adapter_for, message_fields, to_event_store

FEW = settings(max_examples=150, deadline=None)
PROVIDERS = ["anthropic", "openai", "azure_openai", "google", "langchain"]
words = st.sampled_from(
    [
        *("type", "role", "content", "text", "thinking", "tool_use", "tool_calls", "messages"),
        *("choices", "message", "delta", "index", "id", "name", "input", "usage", "candidates"),
        *("parts", "output", "error", "response_metadata", "usage_metadata", "event", "data"),
        *("chunk", "toolExecutions", "message_start", "content_block_delta", "ai", "human", "tool"),
        *("on_chat_model_stream", "on_chat_model_end", "response.output_item.done", "citations"),
        *("tool_call_chunks", "function", "arguments", "finish_reason", "stop_reason", "args"),
    ]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    words,
    st.text(max_size=5),
    st.binary(max_size=5),
)
rubbish = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)
STREAMS: list[tuple[str, Any, Any]] = [
    ("anthropic", samples.ANTHROPIC, wire.anthropic_events),
    ("openai", samples.OPENAI, wire.openai_chunks),
    ("openai", samples.RESPONSES, wire.responses_events),
    ("google", samples.GOOGLE, wire.google_chunks),
]


def spoiled(value: Any, chance: Random, bad: Any) -> Any:
    """Return a copy with one value replaced at a random place."""
    value = copy.deepcopy(value)
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chance.choice(keys)
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or chance.random() < 0.3:
            place[key] = bad
            return value
        place = inner


def use(result: Any) -> None:
    for event in result.events:
        message_fields(event)
        to_event_store(event)


@FEW
@given(value=rubbish, provider=st.none() | st.sampled_from(PROVIDERS))
def test_rubbish_as_a_result(value, provider):
    normalizer = BatchResultNormalizer(provider=provider)

    use(normalizer.normalize(value, whole_turn=True))
    use(normalizer.normalize({"messages": value, "toolExecutions": value, "approvals": value}))
    use(normalizer.normalize([{"type": "ai", "content": value, "tool_calls": value}]))


@FEW
@given(chunks=st.lists(rubbish, max_size=6), provider=st.sampled_from(PROVIDERS))
def test_rubbish_as_chunks(chunks, provider):
    adapter = adapter_for(provider)
    for chunk in chunks:
        adapter.process_chunk(chunk)
    events = adapter.finish()

    use(adapter.result())
    assert adapter.ended
    assert [event.type for event in events].count("stream_end") in (0, 1)


@FEW
@given(bodies=st.lists(st.binary(max_size=30), max_size=5), provider=st.sampled_from(PROVIDERS))
def test_rubbish_as_bytes(bodies, provider):
    adapter = adapter_for(provider)
    for body in bodies:
        adapter.process_bytes(b"data: " + body + b"\n\n")
    adapter.finish()

    use(adapter.result())


@FEW
@given(
    sample=st.sampled_from([*(answer for _, answer, _ in STREAMS), samples.APPENDIX_A]),
    bad=rubbish,
    seed=st.integers(0, 2**32),
)
def test_an_answer_with_one_thing_spoiled(sample, bad, seed):
    use(BatchResultNormalizer().normalize(spoiled(sample, Random(seed), bad), whole_turn=True))


@FEW
@given(stream=st.sampled_from(STREAMS), bad=rubbish, seed=st.integers(0, 2**32))
def test_a_stream_with_one_thing_spoiled(stream, bad, seed):
    provider, answer, events_of = stream
    chance = Random(seed)
    adapter = adapter_for(provider)
    for event in spoiled(events_of(answer, chance), chance, bad):
        adapter.process_chunk(event)
    adapter.finish()

    use(adapter.result())
    assert adapter.ended


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ({"text": "no type"}, "malformed_block"),
        (42, "malformed_block"),
        ({"type": "text"}, "malformed_block"),
        ({"type": "thinking"}, "malformed_block"),
        ({"type": "tool_use", "id": "t"}, "malformed_block"),
        ({"type": "hologram"}, "unknown_block"),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": "{broken"},
            "malformed_tool_arguments",
        ),
    ],
)
def test_bad_block_is_reported_with_its_index_and_others_are_kept(block, code):
    content = [{"type": "text", "text": "before"}, block, {"type": "text", "text": "after"}]

    result = BatchResultNormalizer().normalize([{"type": "ai", "content": content}])

    (problem,) = result.problems
    assert (problem.code, problem.message_index, problem.block_index) == (code, 0, 1)
    said = [event.content for event in result.events if event.type == "assistant_message"]
    assert said == ["before", "after"]


def test_bad_message_does_not_affect_the_others():
    result = BatchResultNormalizer().normalize([None, {"type": "ai", "content": "hi"}, {"x": 1}])

    assert result.text == "hi"
    assert [problem.code for problem in result.problems] == ["malformed_message"] * 2


def test_broken_arguments_are_kept_as_they_came():
    adapter = adapter_for("anthropic")
    tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    part = {"type": "input_json_delta", "partial_json": '{"a": '}
    adapter.process_chunk({"type": "content_block_start", "index": 0, "content_block": tool})
    adapter.process_chunk({"type": "content_block_delta", "index": 0, "delta": part})
    adapter.abandon()

    (event,) = adapter.result().events
    assert (event.tool_call.arguments, event.tool_call.arguments_text) == ({}, '{"a": ')


def test_objects_that_raise_when_looked_at():
    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __str__(self):
            raise RuntimeError

    for provider in PROVIDERS:
        adapter = adapter_for(provider)
        adapter.process_chunk(Hostile())
        adapter.finish()
        assert adapter.problems
    result = BatchResultNormalizer().normalize([Hostile(), {"type": "ai", "content": Hostile()}])
    assert len(result.problems) >= 1


def test_data_that_never_ends_is_cut_off():
    endless: list[Any] = []
    endless += [endless, endless]
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]

    for value in (endless, deep):
        use(BatchResultNormalizer().normalize([{"type": "ai", "content": [value]}]))


def test_problems_of_a_stream_are_bounded():
    adapter = adapter_for("anthropic")
    for _ in range(1_000):
        adapter.process_chunk(None)

    assert len(adapter.problems) == 100


@pytest.mark.parametrize("read", ["process_bytes", "follow_bytes"])
def test_an_event_that_is_too_long_is_a_problem_and_the_next_is_read(read):
    adapter = adapter_for("openai")
    take = getattr(adapter, read)
    for _ in range(20):
        take(b"data: " + b"x" * 2**20)
    take(b'\n\ndata: {"choices":[{"index":0,"delta":{"content":"four"}}]}\n\ndata: {\n\n')
    adapter.abandon()

    assert adapter.result().text == "four"
    assert [(each.code, each.message) for each in adapter.problems] == [
        ("malformed_chunk", f"an event of more than {MAX_EVENT_BYTES} bytes"),
        ("malformed_chunk", "a frame's data is no JSON"),
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_endless_response_is_streamed_but_stored_up_to_a_limit(provider):
    chunks: dict[str, Any] = {
        "anthropic": {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "four"},
        },
        "openai": {"choices": [{"index": 0, "delta": {"content": "four"}}]},
        "azure_openai": {"type": "response.output_text.delta", "output_index": 0, "delta": "four"},
        "google": {"candidates": [{"content": {"parts": [{"text": "four"}]}}]},
        "langchain": {"type": "AIMessageChunk", "content": "four"},
    }
    adapter = adapter_for(provider, max_characters=10)
    events = [event for _ in range(5) for event in adapter.process_chunk(chunks[provider])]
    adapter.abandon()

    assert [event.content for event in events if event.type == "content_delta"] == ["four"] * 5
    assert adapter.result().text == "fourfour"
    (problem,) = adapter.result().problems
    assert problem.code == "answer_too_long"
    assert "last 12 characters" in problem.message
