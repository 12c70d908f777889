"""Spans of dialects that no available package sends, written from their documentation."""

import itertools
import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

START = 1_769_162_400_000_000_000

SPANS = {
    "openllmetry-flat": [
        {
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "You are brief.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "Weather?",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.finish_reason": "tool_calls",
            "gen_ai.completion.0.tool_calls.0.id": "call_1",
            "gen_ai.completion.0.tool_calls.0.name": "get_weather",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"city":"Lima"}',
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 0,
            "llm.usage.total_tokens": 100,
            "gen_ai.usage.cache_read_input_tokens": 60,
            "llm.user": "user-1",
        }
    ],
    "otel-genai-events": [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "az.ai.openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 4,
            "events": [
                ("gen_ai.system.message", {"content": "You are brief."}),
                ("gen_ai.user.message", {"content": "Weather?"}),
                ("gen_ai.choice", {"message": "Sunny.", "finish_reason": "stop", "index": 0}),
            ],
        }
    ],
    "otel-genai-2": [
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "booking",
            "gen_ai.conversation.id": "session-1",
        },
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "weather_agent",
            "gen_ai.usage.input_tokens": 240,
            "gen_ai.usage.output_tokens": 60,
            "gen_ai.usage.cost.amount": 0.5,
            "gen_ai.usage.cost.currency": "USD",
        },
        {"gen_ai.operation.name": "plan", "gen_ai.agent.name": "weather_agent"},
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-sonnet-4-5",
            "gen_ai.response.model": "claude-sonnet-4-5-20250929",
            "gen_ai.usage.input_tokens": 370,
            "gen_ai.usage.output_tokens": 15,
            "gen_ai.usage.cache_read.input_tokens": 300,
            "gen_ai.usage.cache_write.input_tokens": 50,
            "gen_ai.usage.reasoning.output_tokens": 5,
            "gen_ai.usage.cost.amount": 0.25,
            "gen_ai.usage.cost.currency": "EUR",
            "gen_ai.response.time_to_first_chunk": 0.25,
            "gen_ai.response.finish_reasons": ["stop", "length"],
            # A message without parts, and a part of an unknown type.
            "gen_ai.input.messages": '[{"role":"user","content":"Weather?"}]',
            "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"hologram","beam":true}]}]',
        },
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": '{"city":"Lima"}',
            "gen_ai.tool.call.result": "sunny",
        },
        {
            "kind": 2,
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
        },
        {"gen_ai.operation.name": "search_memory"},
        {"gen_ai.operation.name": "fetch_response", "gen_ai.response.id": "resp_1"},
        {"gen_ai.operation.name": "dream", "gen_ai.request.model": "gpt-4o"},
    ],
    "anthropic-exclusive": [
        # The provider's own counts: the prompt excludes cached tokens.
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "anthropic",
            "gen_ai.request.model": "claude-sonnet-4-5",
            "gen_ai.usage.input_tokens": 400,
            "gen_ai.usage.output_tokens": 15,
            "gen_ai.usage.total_tokens": 765,
            "gen_ai.usage.cache_read_input_tokens": 300,
            "gen_ai.usage.cache_creation_input_tokens": 50,
        }
    ],
    "logfire-pending": [
        {
            "logfire.span_type": "pending_span",
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 5,
        }
    ],
    "openlit": [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "mistral",
            "gen_ai.request.model": "mistral-large-latest",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.usage.cost": 0.0001,
        }
    ],
    "mlflow": [
        {
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.llm.model": "gpt-4o",
            "mlflow.llm.provider": "openai",
            "mlflow.chat.tokenUsage": '{"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}',
            "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "Weather?"}]}',
            "mlflow.spanOutputs": '{"choices": [{"message": {"role": "assistant", "content": "Sunny."}}]}',
        }
    ],
    "plain": [{"http.request.method": "GET", "session.id": "session-1"}],
    "hostile": [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": "many",
            "gen_ai.usage.output_tokens": -5,
            "gen_ai.usage.total_tokens": 2**63 - 1,
            "gen_ai.usage.cache_read.input_tokens": 2.5,
            "llm.cost.total": "NaN",
            "gen_ai.response.time_to_first_chunk": "soon",
            "langfuse.observation.completion_start_time": "yesterday",
            "langfuse.observation.usage_details": "{not json",
            "langfuse.observation.cost_details": "[]",
            "gen_ai.input.messages": "[{broken",
            "gen_ai.output.messages": '{"role": 7, "content": {"a": [1]}, "tool_calls": "x"}',
            "gen_ai.response.finish_reasons": "[1, broken",
        }
    ],
}


def bodies():
    """Return each dialect as an OTLP request."""
    return {name: request(name, spans) for name, spans in SPANS.items()}


def request(name, spans):
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    scope.scope.name = name
    trace = name.encode().ljust(16, b".")[:16]
    for number, attributes in zip(itertools.count(1), spans, strict=False):
        rest = dict(attributes)
        span = scope.spans.add(
            trace_id=trace,
            span_id=number.to_bytes(8, "big"),
            name=f"span {number}",
            kind=rest.pop("kind", 1),
            start_time_unix_nano=START + number,
            end_time_unix_nano=START + number + 5,
        )
        for event_name, said in rest.pop("events", []):
            event = span.events.add(name=event_name, time_unix_nano=START)
            _fill(event.attributes, said)
        _fill(span.attributes, rest)
    return made.SerializeToString()


def _fill(attributes, said):
    for key, value in said.items():
        _put(attributes.add(key=key).value, value)


def _put(place, value):
    match value:
        case bool():
            place.bool_value = value
        case int():
            place.int_value = value
        case float():
            place.double_value = value
        case str():
            place.string_value = value
        case list():
            place.array_value.SetInParent()
            for each in value:
                _put(place.array_value.values.add(), each)
        case dict():
            place.kvlist_value.SetInParent()
            _fill(place.kvlist_value.values, value)
        case _:
            raise TypeError(json.dumps(value))
