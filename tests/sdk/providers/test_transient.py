"""Transient content: noted by size in events, left out of messages."""

from types import SimpleNamespace

import pytest

from tracereel.providers import BatchResultNormalizer, adapter_for, message_fields
from tracereel.providers.transient import without_thinking

THOUGHT = "a secret plan, ñ"
SIZE = len(THOUGHT.encode())


def thinking_event():
    message = {"type": "ai", "content": [{"type": "thinking", "thinking": THOUGHT}]}
    (event,) = BatchResultNormalizer().normalize([message]).events
    return event


def test_a_transient_event_has_sizes_instead_of_content():
    fields = message_fields(thinking_event())

    assert (fields["persistence_strategy"], fields["content_size_bytes"]) == ("transient", SIZE)
    assert not {"content", "raw"} & fields.keys()
    assert THOUGHT not in repr(fields)


def test_thinking_can_be_stored():
    fields = message_fields(thinking_event(), store_thinking=True)

    assert (fields["persistence_strategy"], fields["content"]) == ("async", THOUGHT)


def test_an_error_keeps_its_type_and_message():
    (event,) = BatchResultNormalizer().normalize(RuntimeError("broke")).events

    fields = message_fields(event)

    assert (fields["error_type"], fields["error_message"]) == ("RuntimeError", "broke")
    assert (fields.get("content"), fields["content_size_bytes"]) == (None, 5)


def test_parts_of_a_stream_have_sizes():
    adapter = adapter_for("anthropic")
    adapter.process_chunk({"type": "message_start", "message": {"id": "m"}})
    delta = {"type": "text_delta", "text": "hi"}
    (event,) = adapter.process_chunk({"type": "content_block_delta", "index": 0, "delta": delta})

    fields = message_fields(event)

    assert (fields["message_type"], fields["content_size_bytes"]) == ("content_delta", 2)
    assert not {"content", "raw"} & fields.keys()


def test_what_is_not_transient_keeps_its_content():
    message = {"type": "ai", "content": "hi", "tool_calls": [{"id": "t", "name": "f", "args": {}}]}
    said, asked = BatchResultNormalizer().normalize([message]).events

    assert (message_fields(said)["content"], message_fields(asked)["arguments"]) == ("hi", {})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": THOUGHT}]},
        {"role": "assistant", "content": [SimpleNamespace(type="thinking", thinking=THOUGHT)]},
        {"role": "model", "parts": [{"text": THOUGHT, "thought": True}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {"role": "assistant", "content": "hi", "reasoning_content": THOUGHT},
        {"type": "ai", "content": "hi", "additional_kwargs": {"reasoning_content": THOUGHT}},
        SimpleNamespace(role="assistant", content=[{"type": "reasoning", "reasoning": THOUGHT}]),
    ],
)
def test_messages_have_the_size_of_the_reasoning(message):
    before = repr(message)

    (kept,) = without_thinking([message])

    assert THOUGHT not in repr(kept)
    assert "size_bytes" in repr(kept)
    assert repr(message) == before


@pytest.mark.parametrize("message", ["hi", None, 3, {"role": "user", "content": "hi"}, ["x"]])
def test_other_messages_are_unchanged(message):
    assert without_thinking([message])[0] is message
