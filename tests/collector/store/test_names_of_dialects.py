"""Names that no recording has, or not with a value: one small span each."""

import json

import pytest

from tests.collector.store.dialects.handwritten import request
from tracereel_collector.model import Kind

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
NAMES = [
    ({**CHAT, "gen_ai.request.user": "ann"}, "UserId", "ann"),
    ({**CHAT, "ai.settings.context.userId": "ann"}, "UserId", "ann"),
    ({**CHAT, "ai.settings.context.sessionId": "talk"}, "SessionId", "talk"),
    ({**CHAT, "gcp.vertex.agent.session_id": "talk"}, "SessionId", "talk"),
    ({**CHAT, "gen_ai.agent.finish_reason": "end_turn"}, "FinishReason", "stop"),
    (
        {**CHAT, "traceloop.association.properties.lc_agent_name": "weather"},
        "AgentName",
        "weather",
    ),
    ({**CHAT, "langsmith.trace.name": "ChatOpenAI"}, "WorkflowName", ""),
    ({**CHAT, "gen_ai.system": "gcp.vertex.agent"}, "Provider", ""),
    ({**CHAT, "gen_ai.client.operation.time_to_first_chunk": 0.25}, "FirstTokenMs", 250),
    ({**CHAT, "gen_ai.client.inference.time_to_first_chunk": 0.25}, "FirstTokenMs", 250),
    ({**CHAT, "gen_ai.server.time_to_first_token": 0.25}, "FirstTokenMs", 250),
    ({**CHAT, "llm.time_to_first_token_ms": 250}, "FirstTokenMs", 250),
    ({"span.type": "llm_request", "model": "m", "ttft_ms": 250}, "FirstTokenMs", 250),
    ({"span.type": "llm_request", "model": "m", "input_tokens": 7}, "PromptTokens", 7),
    (
        {"span.type": "llm_request", "model": "m", "stop_reason": "tool_use"},
        "FinishReason",
        "tool_call",
    ),
    ({"span.type": "tool", "tool_name": "Bash"}, "ToolName", "Bash"),
    ({**CHAT, "gen_ai.cost.total_cost": 0.5}, "CostUsd", 0.5),
    ({**CHAT, "gen_ai.usage.input_tokens": 5, "gen_ai.usage.cost": 0}, "CostUsd", None),
    ({"gen_ai.operation.name": "agent_step"}, "CallKind", "step"),
    ({"gen_ai.operation.name": "invoke_workflow"}, "CallKind", "workflow"),
    (
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.aggregated_usage.input_tokens": 9},
        "InclusiveTokens",
        9,
    ),
]
EVENTS = (
    *("First Token Stream Event", "gen_ai.content.completion.chunk"),
    *("llm.content.completion.chunk", "ai.stream.firstChunk"),
)


def stored(store, queued, token, spans):
    """Store spans; return their rows in order."""
    body = queued(request("names", spans), records=len(spans), kind=Kind.SPANS)
    store.insert(Kind.SPANS, [body], token=token)
    found = store.select("SELECT * FROM otel_spans ORDER BY Position", {}, fmt="JSONEachRow")
    return [json.loads(line) for line in found.splitlines()]


def test_each_name_fills_its_column(store, queued, token):
    rows = stored(store, queued, token, [span for span, _, _ in NAMES])

    found = [(column, row[column]) for row, (_, column, _) in zip(rows, NAMES, strict=True)]
    assert found == [(column, value) for _, column, value in NAMES]


@pytest.mark.parametrize("name", EVENTS)
def test_the_first_token_is_found_in_events(store, queued, token, name):
    (row,) = stored(store, queued, token, [{**CHAT, "events": [(name, {})]}])

    assert row["FirstTokenMs"] is not None
