"""Summaries of spans of other instrumentations, with the field names of events."""

from datetime import UTC, datetime
from typing import Any, Final

from tracereel_collector.store.dialects.names import SLOTS

_FIELDS: Final = {
    "agent_name": ("agent",),
    "pipeline_type": ("workflow",),
    "session_id": ("session",),
    "user_id": ("user",),
    "llm_model": ("model_served", "model_requested", "model"),
    "llm_provider": ("provider",),
    "tool_name": ("tool",),
    "error_type": ("error",),
}
_FIELD_OF: Final = {
    name: (field, rank)
    for field, slots in _FIELDS.items()
    for rank, name in enumerate(name for slot in slots for name in SLOTS[slot])
}
_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUS: Final = {1: "success", 2: "failed"}
MAX_TEXT: Final = 500
SPAN_EVENT: Final = "otel.span"
"""Event type of spans of other instrumentations, also used in replays."""


def summary_of(span: Any, resource: Any, scope: Any) -> dict[str, Any]:
    """Return the fields of a span that are shown live."""
    fields: dict[str, Any] = {
        "event_type": SPAN_EVENT,
        "timestamp": _time(span.start_time_unix_nano),
        "trace_id": span.trace_id.hex(),
        "otel_trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex(),
        "span_name": span.name[:MAX_TEXT],
        "span_kind": _KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else "unspecified",
        "scope": scope.name[:MAX_TEXT],
        "service": next(
            (
                each.value.string_value[:MAX_TEXT]
                for each in resource.attributes
                if each.key == "service.name"
            ),
            "",
        ),
        # Most instrumentations leave the status of successful spans unset.
        "status": _STATUS.get(span.status.code, "success"),
        "duration_ms": max(0, span.end_time_unix_nano - span.start_time_unix_nano) // 1_000_000,
    }
    if span.status.message:
        fields["status_message"] = span.status.message[:MAX_TEXT]
    best: dict[str, int] = {}
    for attribute in span.attributes:
        field, rank = _FIELD_OF.get(attribute.key, ("", 0))
        value = attribute.value.string_value
        if field and value and rank < best.get(field, len(_FIELD_OF)):
            fields[field], best[field] = value[:MAX_TEXT], rank
    return fields


def _time(unix_nano: int) -> str:
    try:
        moment = datetime.fromtimestamp(unix_nano // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_nano % 1_000_000_000:09d}Z"
