"""Content of steps over HTTP: one form for SDK events and for spans of other instrumentations."""

import asyncio
import json
import uuid

import pytest

from tests.collector.store.dialects.handwritten import request
from tests.support.collector import http
from tests.support.contract import example
from tests.support.waiting import wait_until
from tracereel.cli import main
from tracereel.client import AsyncClient, Client
from tracereel.content import ModelCallContent, ToolCallContent

PROTOBUF = {"Content-Type": "application/x-protobuf"}
ASKED = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "What is the weather in Lima?"},
]
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city":"Lima"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "clear"}'}


def content(collector, trace_id, step_id, **parameters):
    """Return the answer of the route."""
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return http("GET", f"{collector.url}/v1/traces/{trace_id}/steps/{step_id}/content?{query}")


def shown(messages):
    """Return roles and texts or values, without ids."""
    return [
        (message["role"], [part.get("text", part.get("value")) for part in message["parts"]])
        for message in messages
    ]


def event(kind, trace_id, span_id, **fields):
    """Return an event of a run with an id and span of its own."""
    is_call = kind.endswith(".called")
    base = {"event_type": kind, "status": "success", "duration_ms": 1} if is_call else example(kind)
    ids = {"event_id": uuid.uuid4().hex, "trace_id": trace_id, "span_id": span_id}
    return {"timestamp": "2025-11-13T02:13:21Z", "event_version": "1.0.0", **base, **ids, **fields}


@pytest.fixture
def two_calls(collector, trace_id):
    """Return a run of two model calls, the second of which continues the first, and a tool call."""
    second = 1_000_000_000
    start = 1_763_000_000 * second
    calls = [
        event(
            "agent.llm.called",
            trace_id,
            "00f067aa0ba902b7",
            input_messages=ASKED,
            output_messages=[CALLED],
            span_start_unix_nano=start,
            span_end_unix_nano=start + second,
            timestamp="2025-11-13T02:13:21Z",
        ),
        event(
            "agent.tool.called",
            trace_id,
            "00f067aa0ba902b8",
            tool_name="get_weather",
            tool_call_id="call_1",
            arguments={"city": "Lima"},
            result={"sky": "clear"},
            timestamp="2025-11-13T02:13:22Z",
        ),
        event(
            "agent.llm.called",
            trace_id,
            "00f067aa0ba902b9",
            # Some providers give calls new ids when they are sent again.
            input_messages=[
                *ASKED,
                {**CALLED, "tool_calls": [{**CALLED["tool_calls"][0], "id": "call_9"}]},
                {**RESULT, "tool_call_id": "call_9"},
            ],
            output_messages=[{"role": "assistant", "content": "It is **clear**."}],
            tool_definitions=[
                {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
            ],
            request_parameters={"temperature": 0.2, "tool_choice": "auto"},
            llm_prompt_tokens=120,
            llm_completion_tokens=30,
            llm_tokens_used=150,
            llm_cached_tokens=40,
            llm_cache_creation_tokens=10,
            llm_reasoning_tokens=8,
            finish_reason="stop",
            time_to_first_token_ms=500,
            duration_ms=1500,
            span_start_unix_nano=start + 2 * second,
            span_end_unix_nano=start + 3 * second,
            timestamp="2025-11-13T02:13:23Z",
        ),
    ]
    answer = collector.post_events(calls)
    assert answer.status == 200, answer.body
    return trace_id


def test_a_model_call_is_returned_as_a_conversation_with_its_facts(collector, two_calls):
    found = content(collector, two_calls, "00f067aa0ba902b9").json()

    assert found["kind"] == "model"
    assert shown(found["input"]) == [
        ("system", ["You are brief."]),
        ("user", ["What is the weather in Lima?"]),
        ("assistant", [{"city": "Lima"}]),
        ("tool", [{"sky": "clear"}]),
    ]
    assert shown(found["output"]) == [("assistant", ["It is **clear**."])]
    assert found["tools"] == [{"name": "get_weather", "parameters": {}, "type": "function"}]
    assert found["parameters"]["tool_choice"] == "auto"
    assert found["usage"] == {
        "input": 120,
        "output": 30,
        "total": 150,
        "cache_read": 40,
        "cache_write": 10,
        "reasoning": 8,
    }
    assert (found["first_token_ms"], found["tokens_per_second"]) == (500.0, 30.0)
    assert found["finish_reason"] == "stop"


def test_messages_of_the_previous_call_are_counted_whatever_their_ids(collector, two_calls):
    first = content(collector, two_calls, "00f067aa0ba902b7").json()
    second = content(collector, two_calls, "00f067aa0ba902b9").json()

    assert (first["earlier"], first.get("earlier_step")) == (0, None)
    assert (second["earlier"], second["earlier_step"]) == (3, "00f067aa0ba902b7")


def test_a_tool_call_is_returned_as_arguments_and_result(collector, two_calls):
    found = content(collector, two_calls, "00f067aa0ba902b8").json()

    assert found == {
        "kind": "tool",
        "name": "get_weather",
        "id": "call_1",
        "arguments": {"city": "Lima"},
        "result": {"sky": "clear"},
    }


def test_raw_adds_the_events_as_they_were_sent(collector, two_calls):
    found = content(collector, two_calls, "00f067aa0ba902b8", raw=1).json()

    (sent,) = found["raw"]["events"]
    assert sent["arguments"] == {"city": "Lima"}
    assert sent["event_type"] == "agent.tool.called"


def test_an_agents_input_and_output_name_question_and_answer(collector, trace_id):
    asked = {"state": {"messages": [{"type": "human", "content": "Where is Lima?"}]}}
    said = {
        "messages": [
            {"type": "human", "content": "Where is Lima?"},
            {"type": "ai", "content": "In Peru."},
        ]
    }
    span = "00f067aa0ba902c1"
    collector.post_events(
        [
            event("agent.execution.started", trace_id, span, input=asked),
            event("agent.execution.completed", trace_id, span, output=said),
        ]
    )

    found = content(collector, trace_id, span).json()

    assert (found["kind"], found["asked"], found["answered"]) == (
        *("value", "Where is Lima?"),
        "In Peru.",
    )
    assert (found["input"], found["output"]) == (asked, said)


def test_events_without_spans_have_content_by_event_id(collector, trace_id):
    called = event("agent.llm.called", trace_id, None, input_messages=ASKED, output_messages=["hi"])
    collector.post_events([{**called, "span_id": None, "parent_span_id": None}])

    found = content(collector, trace_id, called["event_id"]).json()

    assert shown(found["output"]) == [("assistant", ["hi"])]


def test_large_content_that_is_stored_apart_is_whole_and_marks_cuts(collector, trace_id):
    text = "All happy families are alike. " * 2_000
    removed = {"role": "tracereel", "content": "", "removed_messages": 5, "removed_bytes": 99}
    large = {"input_messages": [*ASKED, removed, {"role": "user", "content": text}]}
    facts = event("agent.llm.called", trace_id, "00f067aa0ba902d1")
    line = json.dumps({**facts, "content_bytes": len(json.dumps(large)), **large})

    assert collector.post_events(None, raw=line.encode()).status == 200
    found = content(collector, trace_id, "00f067aa0ba902d1").json()

    assert found["input"][-1]["parts"] == [{"type": "text", "text": text}]
    assert found["cut"] == {"length": 8, "removed": 5, "at": 2}


def test_a_span_of_another_instrumentation_has_the_same_form(collector):
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
    ]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be kind."}]),
        "gen_ai.input.messages": json.dumps(messages[:1]),
        "gen_ai.output.messages": messages[1:],
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.tool.definitions": [{"type": "function", "name": "f", "parameters": {"a": 1}}],
    }
    body = request(f"content-{uuid.uuid4().hex}", [attributes])
    assert http("POST", f"{collector.url}/v1/traces", body, PROTOBUF).status == 200
    trace_id, span_id = spans_in(body)[0]
    wait_until(lambda: content(collector, trace_id, span_id).status == 200, timeout=30)

    found = content(collector, trace_id, span_id, raw=1).json()

    assert shown(found["input"]) == [("system", ["Be kind."]), ("user", ["hi"])]
    assert found["output"][0]["parts"] == [{"type": "thinking", "text": "hm"}]
    assert found["parameters"] == {"temperature": 0.5}
    assert found["tools"] == [{"name": "f", "parameters": {"a": 1}, "type": "function"}]
    assert (found["model"], found["provider"], found["finish_reason"]) == (
        *("gpt-4o", "openai"),
        "stop",
    )
    assert found["usage"]["input"] == 5
    assert found["raw"]["attributes"]["gen_ai.request.temperature"] == 0.5


def spans_in(body):
    """Return trace and span ids of an OTLP request."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    parsed = ExportTraceServiceRequest.FromString(body)
    return [
        (span.trace_id.hex(), span.span_id.hex())
        for resource in parsed.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_the_client_returns_content_as_models(collector, two_calls):
    found = Client(collector.url).content(two_calls, "00f067aa0ba902b9")

    async def ask():
        async with AsyncClient(collector.url) as client:
            return await client.content(two_calls, "00f067aa0ba902b8")

    assert isinstance(found, ModelCallContent)
    assert [message.role for message in found.input] == ["system", "user", "assistant", "tool"]
    assert isinstance(asyncio.run(ask()), ToolCallContent)


def test_the_command_prints_the_conversation_of_a_step(collector, two_calls, capsys):
    arguments = ["trace", two_calls, "--step", "00f067aa0ba902b9", "--endpoint", collector.url]

    assert main([*arguments, "--all"]) == 0
    whole = capsys.readouterr().out
    assert main(arguments) == 0
    short = capsys.readouterr().out

    said = whole[whole.index("system\n") :]
    assert said == (
        "system\n  You are brief.\n\n"
        "user\n  What is the weather in Lima?\n\n"
        'assistant\n  ⚙ get_weather {"city": "Lima"}\n    → {"sky": "clear"}\n\n'
        "assistant · answer\n  It is **clear**.\n"
    )
    assert "3 earlier messages, as in step 00f067aa0ba902b7" in short
    assert "You are brief." not in short
    assert "It is **clear**." in short


def test_unknown_steps_and_runs_are_not_found(collector, two_calls):
    unknown_step = content(collector, two_calls, "none")
    unknown_run = content(collector, "no-such-run", "none")

    assert (unknown_step.status, unknown_step.json()["error"]["code"]) == (404, "step_not_found")
    assert unknown_run.status == 404
