"""SQL that collects the texts of a run for full-text search."""

from typing import Final

from tracereel_collector.store.rollups import FROM_OTLP, in_reach

MAX_TEXT: Final = 16_000
"""Maximum bytes of text that are indexed per event or span."""

_TEXT_FIELDS = (
    *("user_prompt", "input_summary", "output_summary", "reasoning", "error_message"),
    *("final_outcome", "original_error", "primary_error", "fallback_output_summary"),
    *("result_summary", "query", "tool_name", "input_messages", "output_messages"),
    *("arguments", "result", "content", "input_data", "output_data"),
)
"""Fields of events that are searched."""

EVENT_TEXTS: Final = f"""SELECT
    tenant,
    toStartOfHour({in_reach("timestamp")}) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    arrayStringConcat(groupArray(piece), '\\n') AS text
FROM
(
    SELECT tenant, timestamp, trace_id, ingested_at,
        left(concatWithSeparator('\\n', {", ".join(f"said.{field}" for field in _TEXT_FIELDS)}), {MAX_TEXT})
            AS piece
    FROM
    (
        SELECT tenant, timestamp, trace_id, ingested_at,
            JSONExtract(payload, 'Tuple({", ".join(f"{field} String" for field in _TEXT_FIELDS)})') AS said
        FROM agent_events
    )
)
WHERE length(piece) >= {len(_TEXT_FIELDS)}
GROUP BY tenant, hour, trace_id, day"""

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

_SPAN_FAMILIES = " OR ".join(f"startsWith(k, '{prefix}')" for prefix in _SPAN_PREFIXES)

SPAN_TEXTS: Final = f"""SELECT
    TenantId AS tenant,
    toStartOfHour({in_reach("Timestamp")}) AS hour,
    TraceId AS trace_id,
    toDate(IngestedAt) AS day,
    arrayStringConcat(groupArray(piece), '\\n') AS text
FROM
(
    SELECT TenantId, Timestamp, TraceId, IngestedAt,
        arrayStringConcat(arrayMap(t -> left(t, {MAX_TEXT}), arrayConcat(
            if(StatusMessage = '', [], [StatusMessage]),
            arrayFilter(
                (v, k) -> k IN {_SPAN_NAMES!r} OR {_SPAN_FAMILIES},
                mapValues(SpanAttributes), mapKeys(SpanAttributes)),
            arrayFilter(v -> v != '', arrayMap(a -> a['exception.message'], `Events.Attributes`)),
            arrayFilter(v -> v != '', arrayMap(a -> a['content'], `Events.Attributes`)))), '\\n') AS piece
    FROM otel_spans
    WHERE {FROM_OTLP} AND (CallKind != '' OR StatusMessage != '' OR notEmpty(`Events.Name`))
)
WHERE piece != ''
GROUP BY tenant, hour, trace_id, day"""

FRAGMENTS: Final = {"event_texts": EVENT_TEXTS, "span_texts": SPAN_TEXTS}
"""Values of `$name` in the `.sql` files."""
