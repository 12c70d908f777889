"""Conversion of canonical events to fields of an `agent.message.normalized` event."""

from typing import Any, Final

import msgspec

from tracereel.providers.base import ROLES, NormalizedEvent, StreamEvent
from tracereel.providers.reading import as_data
from tracereel.providers.transient import drop_content, strategy_of

MESSAGE_NORMALIZED: Final = "agent.message.normalized"


def message_fields(
    event: NormalizedEvent | StreamEvent, *, store_thinking: bool = False
) -> dict[str, Any]:
    """Return the event fields of a canonical event; a transient one has sizes, no content.

    `store_thinking` makes reasoning `async` instead of `transient`.
    """
    kind = event.type
    strategy = strategy_of(kind, store_thinking=store_thinking)
    fields: dict[str, Any] = {
        "event_type": MESSAGE_NORMALIZED,
        "message_type": kind,
        "role": ROLES[kind],
        "original_index": event.original_index,
        "is_streaming": event.is_streaming,
        "is_final": event.is_final,
        "persistence_strategy": strategy,
        "llm_provider": event.provider,
        "llm_model": event.model,
        "content": event.content,
        "block_index": event.block_index,
        "message_id": event.message_id,
        "stop_reason": event.stop_reason,
        "stop_reason_raw": event.stop_reason_raw,
    }
    if event.raw is not None:
        fields["raw"] = as_data(event.raw)
    if (usage := event.usage) is not None:
        fields["llm_prompt_tokens"] = usage.input_tokens
        fields["llm_completion_tokens"] = usage.output_tokens
        fields["llm_tokens_used"] = usage.input_tokens + usage.output_tokens
        fields["llm_cached_tokens"] = usage.cached_tokens
        fields["llm_cache_creation_tokens"] = usage.cache_creation_tokens
        fields["llm_reasoning_tokens"] = usage.reasoning_tokens
    if (call := event.tool_call) is not None:
        fields["tool_call_id"] = call.id
        fields["provider_tool_call_id"] = call.provider_id
        fields["tool_name"] = call.name
        fields["arguments"] = call.arguments
        fields["arguments_text"] = call.arguments_text
        fields["runs_at_provider"] = call.runs_at_provider
    if (failure := event.failure) is not None:
        fields["error_type"] = failure.type
        fields["error_message"] = failure.message
        fields["error_code"] = failure.code
    if isinstance(event, StreamEvent):
        _add_stream(fields, event)
    else:
        _add_normalized(fields, event)
    if strategy == "transient":
        drop_content(fields)
    return {name: value for name, value in fields.items() if value is not None}


def _add_stream(fields: dict[str, Any], event: StreamEvent) -> None:
    if event.reasoning is not None:
        fields["content"] = event.reasoning
    if event.citation is not None:
        fields["citations"] = [msgspec.to_builtins(event.citation)]
    if event.timings is not None:
        fields["timings"] = msgspec.to_builtins(event.timings)


def _add_normalized(fields: dict[str, Any], event: NormalizedEvent) -> None:
    fields["normalized_id"] = event.event_id
    fields["agent_name"] = event.agent_name
    fields["session_id"] = event.session_id
    fields["message_index"] = event.message_index
    fields["candidate_index"] = event.candidate_index
    if (result := event.tool_result) is not None:
        fields["tool_call_id"] = result.call_id
        fields["provider_tool_call_id"] = result.provider_id
        fields["tool_name"] = result.name
        fields["content"] = result.content
        fields["tool_success"] = result.success
        fields["tool_error"] = result.error
        fields["runs_at_provider"] = result.runs_at_provider
    if event.citations:
        fields["citations"] = [msgspec.to_builtins(each) for each in event.citations]
    if (approval := event.approval) is not None:
        fields["approval"] = msgspec.to_builtins(approval)
        fields["waited_seconds"] = approval.waited_seconds
    if event.problems:
        fields["problems"] = [
            {"code": each.code, "message": each.message, "block_index": each.block_index}
            for each in event.problems
        ]
