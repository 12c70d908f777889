"""A stream gives the same result as the unstreamed response, however it is split."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sdk.providers import samples, wire
from tracereel.providers import BatchResultNormalizer, adapter_for

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
arguments = st.dictionaries(texts, st.one_of(st.integers(-9, 9), texts, st.none()), max_size=3)
chances = st.integers(0, 2**32).map(Random)
tokens = st.integers(0, 9_999)
FEW = settings(max_examples=40, deadline=None)

anthropic_blocks = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, texts),
    st.builds(lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, texts, texts),
    st.builds(
        lambda n, a: {"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": a},
        st.integers(0, 10**9),
        arguments,
    ),
)
anthropic_answers = st.builds(
    lambda blocks, stop, read, out: (
        samples.ANTHROPIC
        | {"content": blocks, "stop_reason": stop}
        | {"usage": {"input_tokens": 3, "cache_read_input_tokens": read, "output_tokens": out}}
    ),
    st.lists(anthropic_blocks, max_size=4),
    st.sampled_from(["end_turn", "max_tokens", "pause_turn", "refusal", "tool_use"]),
    tokens,
    tokens,
)


def _openai_answer(content: str | None, thought: str | None, calls: list[Any], stop: str) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": "f", "arguments": json.dumps(given)},
            }
            for number, given in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": stop}
    return samples.OPENAI | {"choices": [choice]}


openai_answers = st.builds(
    _openai_answer,
    st.none() | texts,
    st.none() | texts,
    st.lists(arguments, max_size=3),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
)


def _google_answer(parts: list[dict[str, Any]], stop: str) -> Any:
    kinds = [("text" in part, part.get("thought")) for part in parts]
    # Adjacent texts of one kind are one text, because the wire has no boundary.
    kept = [p for n, p in enumerate(parts) if n == 0 or kinds[n] != kinds[n - 1] or not kinds[n][0]]
    candidate = {"index": 0, "content": {"role": "model", "parts": kept}, "finishReason": stop}
    return samples.GOOGLE | {"candidates": [candidate]}


google_answers = st.builds(
    _google_answer,
    st.lists(
        st.one_of(
            st.builds(lambda t: {"text": t}, texts),
            st.builds(lambda t: {"text": t, "thought": True}, texts),
            st.builds(lambda a: {"functionCall": {"name": "f", "args": a}}, arguments),
        ),
        max_size=4,
    ),
    st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY"]),
)


def _check(provider: str, answer: Any, events: list[Any], body: bytes, chance: Random) -> None:
    whole = BatchResultNormalizer(provider=provider).normalize(answer)
    by_chunk, by_bytes = adapter_for(provider), adapter_for(provider)
    for event in events:
        by_chunk.process_chunk(event)
    by_chunk.finish()
    for part in wire.cut_bytes(body, chance):
        by_bytes.process_bytes(part)
    by_bytes.finish()

    assert by_chunk.result() == whole
    assert by_bytes.result() == whole
    followed = _followed(provider, body, chance)
    assert followed.result() == whole
    assert followed.timings().token_chunks == by_chunk.timings().token_chunks


def _followed(provider: str, body: bytes, chance: Random) -> Any:
    adapter = adapter_for(provider)
    for part in wire.cut_bytes(body, chance):
        adapter.follow_bytes(part)
    adapter.finish()
    return adapter


def _spoilt(value: Any, chance: Random) -> Any:
    """Return the same data with a part removed or of another type."""
    if chance.random() < 0.05:
        return chance.choice([None, 7, -1, 0.0, True, "text_delta", [], {}, "end"])
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if chance.random() > 0.03}
        return {key: _spoilt(each, chance) for key, each in kept.items()}
    return [_spoilt(each, chance) for each in value] if isinstance(value, list) else value


@settings(max_examples=150, deadline=None)
@given(
    chance=chances,
    kind=st.sampled_from(
        [
            ("anthropic", anthropic_answers, wire.anthropic_events),
            ("openai", openai_answers, wire.openai_chunks),
            ("openai", st.just(samples.RESPONSES), wire.responses_events),
            ("google", google_answers, wire.google_chunks),
        ]
    ),
    data=st.data(),
)
def test_fast_path_gives_the_same_result_as_process_bytes(chance, kind, data):
    """The fast path agrees with the full one, also for damaged streams."""
    provider, answers, stream = kind
    whole = stream(data.draw(answers), chance)
    events = [_spoilt(event, chance) for event in whole]
    thorough = adapter_for(provider, keep_raw=False)
    body = wire.sse(events)
    for event in events:
        thorough.process_bytes(wire.sse([event]))
    thorough.finish()

    quick = adapter_for(provider, keep_raw=False)
    quick.follow_bytes(body)
    quick.finish()

    assert quick.result() == thorough.result()
    assert quick.timings().token_chunks == thorough.timings().token_chunks
    assert quick.current_block_index == thorough.current_block_index


@FEW
@given(answer=anthropic_answers, chance=chances)
def test_anthropic(answer, chance):
    events = wire.anthropic_events(answer, chance)
    _check("anthropic", answer, events, wire.sse(events, named=True), chance)


@FEW
@given(answer=openai_answers, chance=chances, provider=st.sampled_from(["openai", "azure-openai"]))
def test_chat_completions(answer, chance, provider):
    chunks = wire.openai_chunks(answer, chance)
    _check(provider, answer, chunks, wire.sse(chunks, done=True), chance)


@FEW
@given(chance=chances, words=texts)
def test_responses(chance, words):
    answer = json.loads(json.dumps(samples.RESPONSES))
    answer["output"][1]["content"][0] |= {"text": words, "annotations": []}
    events = wire.responses_events(answer, chance)
    _check("openai", answer, events, wire.sse(events, named=True), chance)


@FEW
@given(answer=google_answers, chance=chances)
def test_google(answer, chance):
    chunks = wire.google_chunks(answer, chance)
    _check("google", answer, chunks, wire.sse(chunks), chance)


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
def test_an_answer_with_everything_in_it(provider, answer, stream):
    events = stream(answer, Random(7))

    _check(provider, answer, events, wire.sse(events), Random(8))


def _choice(index: int, finish: str, **message: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", **message}, "finish_reason": finish}


CITED = {"url": "https://x.example", "title": "X", "start_index": 0, "end_index": 4}


@pytest.mark.parametrize(
    ("provider", "answer", "stream"),
    [
        (
            "openai",
            samples.OPENAI
            | {
                "choices": [
                    _choice(0, "stop", content="One way."),
                    _choice(1, "length", content="Another w"),
                ]
            },
            wire.openai_chunks,
        ),
        (
            "openai",
            samples.OPENAI | {"choices": [_choice(0, "stop", content=None, refusal="I cannot.")]},
            wire.openai_chunks,
        ),
        (
            "openai",
            samples.OPENAI
            | {
                "choices": [
                    _choice(
                        0,
                        "stop",
                        content="Said so.",
                        annotations=[{"type": "url_citation", "url_citation": CITED}],
                    )
                ]
            },
            wire.openai_chunks,
        ),
        (
            "openai",
            samples.RESPONSES
            | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            wire.responses_events,
        ),
        (
            "google",
            samples.GOOGLE
            | {
                "candidates": [
                    {"content": {"parts": [{"text": "One."}]}, "finishReason": "STOP", "index": 0},
                    {"content": {"parts": [{"text": "T"}]}, "finishReason": "SAFETY", "index": 1},
                ]
            },
            wire.google_chunks,
        ),
    ],
    ids=["choices", "refusal", "annotations", "incomplete", "candidates"],
)
def test_answers_of_other_shapes(provider, answer, stream):
    events = stream(answer, Random(5))

    _check(provider, answer, events, wire.sse(events), Random(6))


@FEW
@given(chance=chances, words=texts, given=arguments)
def test_response_deltas_are_assembled_without_the_completed_event(chance, words, given):
    """A response cut before `response.completed` has the texts and calls received so far."""
    answer = json.loads(json.dumps(samples.RESPONSES))
    answer["output"][1]["content"][0] |= {"text": words, "annotations": []}
    answer["output"][2]["arguments"] = json.dumps(given)
    adapter = adapter_for("openai")
    for event in wire.responses_events(answer, chance):
        if not event["type"].endswith((".done", ".completed")):
            adapter.process_chunk(event)
    adapter.finish()

    messages_of = {event.type: event for event in adapter.result().events}
    assert messages_of["assistant_message"].content == words
    assert messages_of["tool_request"].tool_call.arguments == given
    assert messages_of["thinking"].content == "Looked it up."
    assert messages_of["error"].failure.type == "StreamCut"
    assert adapter.result().stop_reason == "error"


@FEW
@given(chance=chances, words=texts, thought=texts, given=arguments)
def test_langchain_chunks(chance, words, thought, given):
    """The chunks of a LangChain stream give the same result as its final message."""
    content = [
        {"type": "thinking", "thinking": thought},
        {"type": "text", "text": words},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given},
    ]
    whole = {
        "type": "ai",
        "id": "run-1",
        "content": content,
        "tool_calls": [{"name": "f", "args": given, "id": "toolu_1", "type": "tool_call"}],
        "usage_metadata": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
        "response_metadata": {"stop_reason": "tool_use", "model_name": "claude-x"},
    }
    chunks = [{"content": [], "usage_metadata": {"input_tokens": 9, "output_tokens": 0}}]
    chunks += [
        {"content": [{"type": "thinking", "thinking": part, "index": 0}]}
        for part in wire.pieces(thought, chance)
    ]
    chunks += [
        {"content": [{"type": "text", "text": part, "index": 1}]}
        for part in wire.pieces(words, chance)
    ]
    opening = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "index": 2}
    call = {"name": "f", "args": "", "id": "toolu_1", "index": 2}
    chunks.append({"content": [opening], "tool_call_chunks": [call]})
    for part in wire.pieces(json.dumps(given), chance):
        grown = {"type": "input_json_delta", "partial_json": part, "index": 2}
        call = {"name": None, "args": part, "id": None, "index": 2}
        chunks.append({"content": [grown], "tool_call_chunks": [call]})
    last = {"usage_metadata": {"input_tokens": 0, "output_tokens": 4}}
    chunks.append({"content": [], **last, "response_metadata": whole["response_metadata"]})
    streamed, ended = adapter_for("langchain"), adapter_for("langchain")
    for chunk in chunks:
        data = {"chunk": {"type": "AIMessageChunk", "id": "run-1", **chunk}}
        event = {"event": "on_chat_model_stream", "run_id": "r", "data": data}
        streamed.process_chunk(event)
        ended.process_chunk(event)
    end = {"event": "on_chat_model_end", "run_id": "r", "data": {"output": whole}}
    ended.process_chunk(end)
    streamed.finish()
    ended.finish()
    expected = BatchResultNormalizer(keep_raw=False).normalize([whole])

    def messages_of(result: Any) -> Any:
        return [(e.type, e.content, e.tool_call, e.usage, e.stop_reason) for e in result.events]

    assert messages_of(streamed.result())[-1][3].input_tokens == 9
    assert [event[:3] for event in messages_of(streamed.result())] == [
        e[:3] for e in messages_of(expected)
    ]
    assert messages_of(ended.result()) == messages_of(expected)
    assert ended.result().usage == expected.usage
    assert streamed.result().usage.output_tokens == 4
