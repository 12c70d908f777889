"""Conversion of canonical events to fields of an `agent.message.normalized` event."""

from typing import Any, Final

import msgspec

from tracereel.providers.base import PERSISTENCE, ROLES, NormalizedEvent, StreamEvent, Usage
from tracereel.providers.reading import as_data

_OPTIONAL: Final = ("content", "block_index", "message_id", "stop_reason", "stop_reason_raw")
_NORMALIZED: Final = ("agent_name", "session_id", "message_index", "candidate_index")
MESSAGE_NORMALIZED: Final = "agent.message.normalized"


def message_fields(event: NormalizedEvent | StreamEvent) -> dict[str, Any]:
    """Return the event fields of a canonical event."""
    kind = event.type
    if kind == "assistant_message" and _is_text(event):
        return _text_fields(event)
    fields: dict[str, Any] = {
        "event_type": MESSAGE_NORMALIZED,
        "message_type": kind,
        "role": ROLES[kind],
        "original_index": event.original_index,
        "is_streaming": event.is_streaming,
        "is_final": event.is_final,
        "persistence_strategy": PERSISTENCE[kind],
        "llm_provider": event.provider,
        "llm_model": event.model,
    }
    for name in _OPTIONAL:
        if (value := getattr(event, name)) is not None:
            fields[name] = value
    if event.raw is not None:
        fields["raw"] = as_data(event.raw)
    if (usage := event.usage) is not None:
        _add_usage(fields, usage)
    if (call := event.tool_call) is not None:
        _add(
            fields,
            tool_call_id=call.id,
            provider_tool_call_id=call.provider_id,
            tool_name=call.name,
            arguments=call.arguments,
            arguments_text=call.arguments_text,
            runs_at_provider=call.runs_at_provider,
        )
    if (failure := event.failure) is not None:
        _add(
            fields,
            error_type=failure.type,
            error_message=failure.message,
            error_code=failure.code,
        )
    if isinstance(event, StreamEvent):
        _add_stream(fields, event)
    else:
        _add_normalized(fields, event)
    return fields


def _is_text(event: Any) -> bool:
    """Return whether an event contains only text, which is the most frequent case."""
    return not (
        event.raw is not None
        or event.tool_call is not None
        or event.tool_result is not None
        or event.failure is not None
        or event.approval is not None
        or event.citations
        or event.problems
    )


def _text_fields(event: Any) -> dict[str, Any]:
    """Return the fields of a text event; a fast path of `message_fields`."""
    fields: dict[str, Any] = {
        "event_type": MESSAGE_NORMALIZED,
        "message_type": "assistant_message",
        "role": "assistant",
        "original_index": event.original_index,
        "is_streaming": event.is_streaming,
        "is_final": event.is_final,
        "persistence_strategy": "sync",
        "llm_provider": event.provider,
        "llm_model": event.model,
        "content": event.content,
        "block_index": event.block_index,
        "message_id": event.message_id,
        "stop_reason": event.stop_reason,
        "stop_reason_raw": event.stop_reason_raw,
        "normalized_id": event.event_id,
        "message_index": event.message_index,
        "candidate_index": event.candidate_index,
    }
    if (usage := event.usage) is not None:
        _add_usage(fields, usage)
    if event.agent_name is not None:
        fields["agent_name"] = event.agent_name
    if event.session_id is not None:
        fields["session_id"] = event.session_id
    if None in fields.values():
        fields = {name: value for name, value in fields.items() if value is not None}
    return fields


def _add_usage(fields: dict[str, Any], usage: Usage) -> None:
    read, wrote = usage.input_tokens, usage.output_tokens
    fields["llm_prompt_tokens"], fields["llm_completion_tokens"] = read, wrote
    fields["llm_tokens_used"] = read + wrote
    if usage.cached_tokens is not None:
        fields["llm_cached_tokens"] = usage.cached_tokens
    if usage.cache_creation_tokens is not None:
        fields["llm_cache_creation_tokens"] = usage.cache_creation_tokens
    if usage.reasoning_tokens is not None:
        fields["llm_reasoning_tokens"] = usage.reasoning_tokens


def _add_stream(fields: dict[str, Any], event: StreamEvent) -> None:
    if event.reasoning is not None:
        fields["content"] = event.reasoning
    if event.citation is not None:
        fields["citations"] = [msgspec.to_builtins(event.citation)]
    if event.timings is not None:
        fields["timings"] = msgspec.to_builtins(event.timings)


def _add_normalized(fields: dict[str, Any], event: NormalizedEvent) -> None:
    fields["normalized_id"] = event.event_id
    for name in _NORMALIZED:
        if (value := getattr(event, name)) is not None:
            fields[name] = value
    if (result := event.tool_result) is not None:
        fields.pop("content", None)
        _add(
            fields,
            tool_call_id=result.call_id,
            provider_tool_call_id=result.provider_id,
            tool_name=result.name,
            content=result.content,
            tool_success=result.success,
            tool_error=result.error,
            runs_at_provider=result.runs_at_provider,
        )
    if event.citations:
        fields["citations"] = [msgspec.to_builtins(each) for each in event.citations]
    if (approval := event.approval) is not None:
        fields["approval"] = msgspec.to_builtins(approval)
        _add(fields, waited_seconds=approval.waited_seconds)
    if event.problems:
        fields["problems"] = [
            {"code": each.code, "message": each.message, "block_index": each.block_index}
            for each in event.problems
        ]


def _add(fields: dict[str, Any], **more: Any) -> None:
    """Add fields that are not `None`."""
    fields.update({name: value for name, value in more.items() if value is not None})
