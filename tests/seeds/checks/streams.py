"""Checks of provider streams."""

from types import SimpleNamespace

import pytest

from tests.seeds.registry import check
from tracereel.providers import UnknownProviderError, adapter_for, capabilities_for

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-sonnet-4-5",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4},
    },
}
CITATION = {
    "type": "char_location",
    "cited_text": "two weeks",
    "document_index": 1,
    "document_title": "The law",
    "start_char_index": 10,
    "end_char_index": 19,
}


def _delta(index, **delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _block(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


CHUNKS = {
    "thinking_delta": [_delta(0, type="thinking_delta", thinking="The law says two weeks.")],
    "text_delta": [_delta(1, type="text_delta", text="Two weeks.")],
    "tool_use": [
        _block(2, type="tool_use", id="toolu_1", name="book", input={}),
        _delta(2, type="input_json_delta", partial_json='{"day": "Monday"}'),
        {"type": "content_block_stop", "index": 2},
    ],
    "citations_delta": [_delta(1, type="citations_delta", citation=CITATION)],
    "usage": [
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 6}},
        }
    ],
    "signature_delta": [_delta(0, type="signature_delta", signature="c2lnbmVk")],
}
"""Anthropic's chunk type → chunks of a stream."""


def feed(adapter, chunks):
    return [event for chunk in chunks for event in adapter.process_chunk(chunk)]


def stream():
    """Return the events of a stream with every type of chunk."""
    adapter = adapter_for("anthropic")
    chunks = [START, *(chunk for each in CHUNKS.values() for chunk in each)]
    return [*feed(adapter, [*chunks, {"type": "message_stop"}]), *adapter.finish()]


@check
def stream_adapter_provider(row, evidence):
    assert adapter_for("anthropic").provider == "anthropic"


@check
def process_chunk(row, evidence):
    adapter = adapter_for("anthropic")
    adapter.process_chunk(START)
    (event,) = adapter.process_chunk(CHUNKS["text_delta"][0])
    assert event.content == "Two weeks."
    assert adapter.process_chunk({"type": "ping"}) == []


@check
def stream_reset(row, evidence):
    adapter = adapter_for("anthropic")
    feed(adapter, [START, *CHUNKS["text_delta"]])
    adapter.reset()
    assert adapter.result().text == ""
    assert [event.type for event in adapter.process_chunk(START)] == ["stream_start"]


@check
def stream_block_index(row, evidence):
    adapter = adapter_for("anthropic")
    feed(adapter, [START, *CHUNKS["tool_use"]])
    assert adapter.current_block_index == 2


@check
def stream_factory(row, evidence):
    for name in ("anthropic", "azure-openai", "openai", "google"):
        assert adapter_for(name)
    with pytest.raises(UnknownProviderError, match="cohere"):
        adapter_for("cohere")


@check
def langchain_stream(row, evidence):
    adapter = adapter_for("langchain")
    blocks = [
        {"type": "thinking", "thinking": "hm", "index": 0},
        {"type": "text", "text": "Two weeks.", "index": 1},
    ]
    events = feed(
        adapter,
        [
            {
                "event": "on_chat_model_stream",
                "run_id": "r",
                "data": {"chunk": {"type": "AIMessageChunk", "content": [block]}},
            }
            for block in blocks
        ],
    )
    assert [event.type for event in events] == [
        "stream_start",
        "reasoning_delta",
        "content_delta",
    ]


@check
def malformed_chunks(row, evidence):
    odd = [None, 7, "text", b"\xff", [], {}, {"type": None}, {"type": "content_block_delta"}]
    for provider in ("anthropic", "azure_openai", "openai", "google", "langchain"):
        adapter = adapter_for(provider)
        feed(adapter, [*odd, SimpleNamespace(type=3), {"choices": 1}, {"candidates": {}}])
        assert adapter.finish()[-1].type == "stream_end"


@check
def provider_type(row, evidence):
    assert adapter_for(row["name"]).provider == row["path"]
    assert capabilities_for(row["name"]) == capabilities_for(row["path"])


@check
def stream_type(row, evidence):
    assert row["type"] in [event.type for event in stream()]


@check
def stream_field(row, evidence):
    value = next(event for event in stream() if event.type == row["on"])
    for name in row["path"].split("."):
        value = getattr(value, name)
    assert type(value).__name__ == row["type"]


@check
def capability(row, evidence):
    name = {"webSearch": "web_search"}.get(row["capability"], row["capability"])
    assert getattr(capabilities_for(row["provider"]), name) is row["value"]


@check
def reasoning_families(row, evidence):
    for provider in ("openai", "azure_openai"):
        assert capabilities_for(provider, "o1").reasoning
        assert capabilities_for(provider, "o1-preview").reasoning
        assert not capabilities_for(provider, "gpt-4o").reasoning


@check
def stream_mapping(row, evidence):
    adapter = adapter_for("anthropic")
    adapter.process_chunk(START)
    found = [event.type for event in feed(adapter, CHUNKS[row["chunk"]])]
    assert found == ([] if row["event"] == "nothing" else [row["event"]])
