"""LangChain event streams and message chunks: all messages and tools of a run, in order."""

from types import SimpleNamespace

from tracereel.providers import BatchResultNormalizer, adapter_for


def feed(adapter, chunks):
    return [event for chunk in chunks for event in adapter.process_chunk(chunk)]


def test_langchain_run_contains_all_messages_and_tools():
    call = {"name": "f", "args": {"a": 1}, "id": "call_1"}
    first = {"type": "ai", "id": "1", "content": "", "tool_calls": [call]}
    first["usage_metadata"] = {"input_tokens": 5, "output_tokens": 2}
    last = {"type": "ai", "id": "2", "content": "Done.", "usage_metadata": {"input_tokens": 9}}
    last["response_metadata"] = {"finish_reason": "stop", "model_name": "gpt-4o"}
    adapter = adapter_for("langchain")
    result = {"type": "tool", "tool_call_id": "call_1", "content": "42"}

    events = feed(
        adapter,
        [
            {"event": "on_chain_start", "run_id": "0", "data": {}},
            {"event": "on_chat_model_start", "run_id": "a", "data": {}},
            {"event": "on_chat_model_end", "run_id": "a", "data": {"output": first}},
            {"event": "on_tool_start", "run_id": "b", "data": {"input": {"a": 1}}},
            {"event": "on_tool_end", "run_id": "b", "data": {"output": result}},
            {"event": "on_chat_model_start", "run_id": "c", "data": {}},
            {
                "event": "on_chat_model_stream",
                "run_id": "c",
                "data": {"chunk": {"type": "AIMessageChunk", "id": "2", "content": "Done."}},
            },
            {"event": "on_chat_model_end", "run_id": "c", "data": {"output": last}},
            {"event": "on_chain_end", "run_id": "0", "data": {}},
        ],
    )
    events += adapter.finish()

    assert [event.type for event in events] == [
        "stream_start",
        "tool_call",
        "usage",
        "content_delta",
        "usage",
        "stream_end",
    ]
    told = adapter.result()
    assert told == BatchResultNormalizer(provider="langchain").normalize([first, result, last])
    assert [event.type for event in told.events] == [
        "tool_request",
        "tool_response",
        "assistant_message",
    ]
    assert events[-1].usage == told.usage


def test_a_failed_tool_of_langchain_is_a_failed_result():
    call = {"name": "f", "args": {}, "id": "call_1"}
    adapter = adapter_for("langchain")
    output = {"type": "ai", "content": "", "tool_calls": [call]}
    feed(
        adapter,
        [
            {"event": "on_chat_model_end", "run_id": "a", "data": {"output": output}},
            {
                "event": "on_tool_error",
                "name": "f",
                "run_id": "b",
                "data": {"error": ValueError("no such day")},
            },
        ],
    )

    response = adapter.result().events[1].tool_result
    assert (response.call_id, response.success, response.error) == ("call_1", False, "no such day")


def test_texts_between_blocks_keep_their_place_and_their_citations():
    """ChatAnthropic streams text as strings, followed by citations as blocks."""
    adapter = adapter_for("langchain")
    cited = {"cited_text": "law", "document_index": 0, "document_title": "BOE"}
    for content in (
        [{"type": "thinking", "thinking": "hm", "index": 0}],
        "Two ",
        "weeks.",
        [{"type": "text", "index": 1, "citations": [cited]}],
        [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "index": 2}],
        "After.",
    ):
        adapter.process_chunk({"type": "AIMessageChunk", "id": "run-1", "content": content})
    adapter.finish()

    result = adapter.result()
    assert [(event.type, event.content) for event in result.events[:4]] == [
        ("thinking", "hm"),
        ("assistant_message", "Two weeks."),
        ("tool_request", None),
        ("assistant_message", "After."),
    ]
    assert [citation.source for citation in result.events[1].citations] == ["BOE"]
    assert result.problems == ()


def test_response_with_a_late_id_is_one_response():
    adapter = adapter_for("langchain")
    for identity, content in (("lc_run--1", ""), ("resp_1", "Hel"), ("lc_run--1", "lo")):
        chunk = {"type": "AIMessageChunk", "id": identity, "content": content}
        adapter.process_chunk(chunk)
    adapter.process_chunk({"type": "AIMessageChunk", "content": "", "chunk_position": "last"})
    (end,) = adapter.finish()

    assert end.failure is None
    assert [event.content for event in adapter.result().events] == ["Hello"]


def test_graph_messages_are_separated_by_namespace_and_id():
    adapter = adapter_for("langchain")
    for place, identity, content in (
        ("a", "m1", "One"),
        ("b", "m2", "Two"),
        ("a", "m1", " and"),
        ("a", "m3", "Three"),
    ):
        message = SimpleNamespace(type="AIMessageChunk", id=identity, content=content)
        adapter.process_chunk((message, {"langgraph_checkpoint_ns": place}))
    adapter.abandon()

    assert [event.content for event in adapter.result().events] == ["One and", "Two", "Three"]


def test_tool_calls_in_bare_chunks_are_emitted_at_message_end():
    adapter = adapter_for("langchain")

    def chunk(**fields):
        message = {"type": "AIMessageChunk", "id": "m1", "content": "", **fields}
        return (message, {"langgraph_checkpoint_ns": "agent"})

    parts = [
        {"name": "look", "args": '{"whe', "id": "c1", "index": 0},
        {"name": None, "args": 're": 1}', "id": None, "index": 0},
    ]
    result = {"type": "tool", "tool_call_id": "c1", "content": "seen"}

    events = feed(adapter, [chunk(tool_call_chunks=[part]) for part in parts])
    assert [event.type for event in events] == ["stream_start"]
    (call,) = adapter.process_chunk((result, {}))
    adapter.process_chunk(chunk(id="m2", content="Done.", chunk_position="last"))
    (end,) = adapter.finish()

    assert (call.type, call.tool_call.arguments) == ("tool_call", {"where": 1})
    assert end.failure is None
    assert [event.type for event in adapter.result().events] == [
        "tool_request",
        "tool_response",
        "assistant_message",
    ]
