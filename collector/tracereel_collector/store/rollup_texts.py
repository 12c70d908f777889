"""SQL that collects the texts of a run for full-text search."""

from typing import Final

from tracereel_collector.store.rollups import in_reach
from tracereel_collector.store.template import rendered

MAX_TEXT: Final = 16_000
"""Maximum bytes of text that are indexed per event or span."""

_TEXT_FIELDS = (
    *("user_prompt", "input_summary", "output_summary", "reasoning", "error_message"),
    *("final_outcome", "original_error", "primary_error", "fallback_output_summary"),
    *("result_summary", "query", "tool_name", "input_messages", "output_messages"),
    *("arguments", "result", "content", "input_data", "output_data"),
)
"""Fields of events that are searched."""

_SPAN_NAMES = (
    *("input.value", "output.value", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    *("gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages"),
    *("gen_ai.system_instructions", "gen_ai.retrieval.query.text", "exception.message"),
    *("traceloop.entity.input", "traceloop.entity.output", "langfuse.observation.input"),
    *(
        "langfuse.observation.output",
        "llm.input_messages",
        "llm.output_messages",
        "all_messages_events",
    ),
)
_SPAN_PREFIXES = (
    *("gen_ai.prompt.", "gen_ai.completion.", "llm.input_messages.", "llm.output_messages."),
    *("llm.prompts.", "llm.completions.", "retrieval.documents."),
)

FRAGMENTS: Final = {
    "event_texts": rendered(
        "event_texts.sql",
        moment=in_reach("timestamp"),
        fields=", ".join(f"said.{field}" for field in _TEXT_FIELDS),
        field_types=", ".join(f"{field} String" for field in _TEXT_FIELDS),
        field_count=len(_TEXT_FIELDS),
        max_text=MAX_TEXT,
    ),
    "span_texts": rendered(
        "span_texts.sql",
        moment=in_reach("Timestamp"),
        names=_SPAN_NAMES,
        families=" OR ".join(f"startsWith(k, '{prefix}')" for prefix in _SPAN_PREFIXES),
        max_text=MAX_TEXT,
    ),
}
"""Values of `$name` in the `.sql` files."""
