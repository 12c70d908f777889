"""Conversion of canonical events to event store and frontend messages."""

from typing import Any, Final

from tracereel.providers.base import NormalizedEvent, StreamEvent

PERSISTED: Final = frozenset({"spooled", "stored"})
"""Results of `emit` after which an event survives the process."""

EVENT_STORE_TYPES: Final[dict[str, str]] = {
    "user_message": "user_message_sent",
    "thinking": "agent_thinking_block",
    "assistant_message": "agent_message_sent",
    "tool_request": "tool_use_requested",
    "tool_call": "tool_use_requested",
    "tool_response": "tool_use_completed",
    "error": "error_occurred",
}
"""Event type → type in an event store; other types are not stored."""

FRONTEND_TYPES: Final[dict[str, str]] = {
    "session_start": "session_start",
    "user_message": "user_message_confirmed",
    "thinking": "thinking_complete",
    "tool_request": "tool_use",
    "tool_call": "tool_use",
    "tool_response": "tool_result",
    "assistant_message": "message",
    "complete": "complete",
    "error": "error",
    "approval_requested": "approval_requested",
    "approval_resolved": "approval_resolved",
    "turn_paused": "turn_paused",
    "content_refused": "content_refused",
}
"""Event type → frontend message type; stream deltas have none."""


def to_event_store(
    event: NormalizedEvent | StreamEvent, emitted: str | None = None
) -> dict[str, Any] | None:
    """Convert an event, or return `None` for stream deltas, which have no counterpart.

    `event_type` is the store's type, or `None`; `type` is the frontend's. `emitted` is what
    `Execution.emit` returned for the event: `persistence_state` is `persisted` if a `sync` event
    is `spooled` or `stored`, else `transient`.
    """
    frontend = FRONTEND_TYPES.get(event.type)
    if frontend is None:
        return None
    is_kept = emitted in PERSISTED and event.persistence_strategy == "sync"
    return {
        "event_type": EVENT_STORE_TYPES.get(event.type),
        "type": frontend,
        "persistence_state": "persisted" if is_kept else "transient",
        "persistence_strategy": event.persistence_strategy,
        "event_index": event.original_index,
        "data": _data(event),
    }


def _data(event: NormalizedEvent | StreamEvent) -> dict[str, Any]:
    data: dict[str, Any] = {"model": event.model, "provider": event.provider}
    if event.message_id is not None:
        data["message_id"] = event.message_id
    if event.content is not None:
        data["content"] = event.content
    if event.stop_reason is not None:
        data["stop_reason"] = event.stop_reason
    if (usage := event.usage) is not None:
        data["token_usage"] = {"input": usage.input_tokens, "output": usage.output_tokens}
        if usage.reasoning_tokens is not None:
            data["token_usage"]["thinking"] = usage.reasoning_tokens
    if (call := event.tool_call) is not None:
        data |= {"tool_use_id": call.id, "tool_name": call.name, "tool_args": call.arguments}
    if (failure := event.failure) is not None:
        data |= {"error": failure.message, "error_type": failure.type, "error_code": failure.code}
    if isinstance(event, StreamEvent):
        return data
    data |= {"event_id": event.event_id, "session_id": event.session_id}
    if (result := event.tool_result) is not None:
        data |= {
            "tool_use_id": result.call_id,
            "tool_name": result.name,
            "tool_result": result.content,
            "success": result.success,
            "error": result.error,
        }
    if (approval := event.approval) is not None:
        data |= {
            "approval_id": approval.id,
            "tool_name": approval.tool_name,
            "question": approval.question,
            "approved": approval.approved,
        }
    return data
