"""SQL of the run rollup for lists and searches, and helpers that other rollups share.

It runs in every insert: it must not throw and must not read the clock.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.rollup_costs import NO_TOKENS, UNPRICED_COLUMNS, UNPRICED_OF_SPANS

TAG_KINDS: Final = (
    *("agent", "pipeline", "model", "provider", "service", "session", "user"),
    *("error", "category", "code"),
)
"""Kinds of tags by which runs are found; also the names of the facets."""
MAX_TAG: Final = 256
MAX_PROMPT: Final = 300

CLOSING = (
    semconv.EXECUTION_COMPLETED,
    semconv.EXECUTION_FAILED,
    semconv.EXECUTION_CANCELLED,
)
FROM_OTLP = "Source = 'otlp'"


def _tags(values: dict[str, str]) -> str:
    made = ", ".join(
        f"if({value} = '', '', concat('{kind}:', left({value}, {MAX_TAG})))"
        for kind, value in values.items()
    )
    return f"groupUniqArrayArray(200)(arrayFilter(t -> t != '', [{made}]))"


def nano_usd(cost: str) -> str:
    """Return SQL for dollars as integer nanodollars, whose sums do not depend on the order."""
    bounded = f"greatest(-1e6, least(1e6, ifNull({cost}, 0)))"
    # Rounded, because 0.0000157 * 1e9 is slightly less than 15700.
    return f"toInt64(round(if(isNaN({bounded}), 0, {bounded}) * 1e9))"


def _clock(nano: str, *, earliest: bool) -> str:
    """Return SQL for a clock as text whose `max` is the latest or earliest."""
    # At least 2^56, so that all have sixteen hex digits.
    number = f"greatest(toUInt64({nano}), 72057594037927936)"
    return f"hex(bitNot({number}))" if earliest else f"hex({number})"


def in_reach(time: str) -> str:
    """Return SQL for a time, limited to the range of DateTime. Clocks may be wrong."""
    seconds = f"intDiv(toUnixTimestamp64Nano({time}), 1000000000)"
    return f"toDateTime(greatest(0, least({seconds}, 4294967295)), 'UTC')"


_EVENT_SUMMARIES: Final = f"""SELECT
    tenant,
    toStartOfHour({in_reach("timestamp")}) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    min(timestamp) AS started,
    max(timestamp) AS ended,
    max(if(event_type IN ('{semconv.PIPELINE_STARTED}', '{semconv.EXECUTION_STARTED}'),
        concat(if(event_type = '{semconv.PIPELINE_STARTED}', '2', '1'), {
    _clock("hlc", earliest=True)
},
            if(pipeline_type = '', agent_name, pipeline_type), '\\t', prompt), '')) AS opening,
    max(if(event_type IN ('{semconv.PIPELINE_COMPLETED}', {", ".join(map(repr, CLOSING))}),
        concat(if(event_type = '{semconv.PIPELINE_COMPLETED}', '2', '1'), {
    _clock("hlc", earliest=False)
},
            status), '')) AS closing,
    sum(toInt64(event_type = '{semconv.PIPELINE_STARTED}')
        - toInt64(event_type = '{semconv.PIPELINE_COMPLETED}')) AS pipelines_open,
    sum(toInt64(event_type = '{semconv.EXECUTION_STARTED}')
        - toInt64(event_type IN {CLOSING!r})) AS executions_open,
    count() AS events,
    toUInt64(0) AS spans,
    countIf(event_type = '{semconv.EXECUTION_FAILED}') AS errors,
    countIf(event_type = '{semconv.RETRY_ATTEMPTED}') AS retries,
    countIf(event_type = '{semconv.FALLBACK_TRIGGERED}') AS fallbacks,
    countIf(event_type = '{semconv.DECISION_RECORDED}') AS decisions,
    countIf(event_type = '{semconv.LLM_CALLED}') AS model_calls,
    countIf(event_type = '{semconv.TOOL_CALLED}') AS tool_calls,
    sumIf(ifNull(llm_tokens_used, 0), event_type = '{semconv.LLM_CALLED}') AS call_tokens,
    sumIf(ifNull(llm_tokens_used, 0), event_type IN {CLOSING!r}) AS execution_tokens,
    toUInt64(0) AS span_tokens,
    sumIf(nano_usd, event_type = '{semconv.LLM_CALLED}') AS call_nano_usd,
    sumIf(nano_usd, event_type IN {CLOSING!r}) AS execution_nano_usd,
    toInt64(0) AS span_nano_usd,
    min(ifNull(agent_events.confidence, 2)) AS confidence,
    max(agent_events.parent_trace_id) AS parent_trace_id,
    groupUniqArrayArray(16)(if(span_id = '' OR otel_trace_id = trace_id, [], [otel_trace_id]))
        AS otel_trace_ids,
    {
    _tags(
        {
            "agent": "agent_name",
            "pipeline": "pipeline_type",
            "model": "llm_model",
            "provider": "llm_provider",
            "service": "service",
            "session": "session_id",
            "user": "user_id",
            "error": "error_type",
            "category": "error_category",
            "code": "error_code",
            "emitter": "emitter_id",
        }
    )
} AS tags,
    sumMap(unpriced) AS call_unpriced,
    {NO_TOKENS} AS span_unpriced
FROM
(
    SELECT
        * EXCEPT payload,
        {nano_usd("llm_cost_usd")} AS nano_usd,{UNPRICED_COLUMNS}
        left(multiIf(
            event_type = '{semconv.PIPELINE_STARTED}', JSONExtractString(payload, 'user_prompt'),
            event_type = '{semconv.EXECUTION_STARTED}', JSONExtractString(payload, 'input_summary'),
            ''), {MAX_PROMPT}) AS prompt
    FROM agent_events
) AS agent_events
GROUP BY tenant, hour, trace_id, day"""


_SPAN_SUMMARIES: Final = f"""SELECT
    TenantId AS tenant,
    toStartOfHour({in_reach("Timestamp")}) AS hour,
    TraceId AS trace_id,
    toDate(IngestedAt) AS day,
    toDateTime64(min(Timestamp), 9, 'UTC') AS started,
    fromUnixTimestamp64Nano(max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)), 'UTC') AS ended,
    max(if(ParentSpanId = '', concat('0', {
    _clock("toUnixTimestamp64Nano(Timestamp)", earliest=True)
},
        SpanName, '\\t'), '')) AS opening,
    max(if(ParentSpanId = '', concat('0', {
    _clock("toUnixTimestamp64Nano(Timestamp)", earliest=False)
},
        if(StatusCode = 'Error', 'failed', 'success')), '')) AS closing,
    toInt64(0) AS pipelines_open,
    toInt64(0) AS executions_open,
    toUInt64(0) AS events,
    count() AS spans,
    countIf(StatusCode = 'Error') AS errors,
    toUInt64(0) AS retries,
    toUInt64(0) AS fallbacks,
    toUInt64(0) AS decisions,
    countIf(CallKind IN {DIRECT_KINDS!r}) AS model_calls,
    countIf(CallKind = 'tool') AS tool_calls,
    toUInt64(0) AS call_tokens,
    toUInt64(0) AS execution_tokens,
    sum(ifNull(TotalTokens, 0)) AS span_tokens,
    toInt64(0) AS call_nano_usd,
    toInt64(0) AS execution_nano_usd,
    sum({nano_usd("CostUsd")}) AS span_nano_usd,
    toFloat64(2) AS confidence,
    '' AS parent_trace_id,
    CAST([], 'Array(String)') AS otel_trace_ids,
    {
    _tags(
        {
            "agent": "AgentName",
            "pipeline": "WorkflowName",
            "model": "if(ModelServed = '', ModelRequested, ModelServed)",
            "provider": "Provider",
            "service": "ServiceName",
            "session": "SessionId",
            "user": "UserId",
            "error": "ErrorType",
        }
    )
} AS tags,
    {NO_TOKENS} AS call_unpriced,
    sumMap({UNPRICED_OF_SPANS}) AS span_unpriced
FROM otel_spans
WHERE {FROM_OTLP}
GROUP BY tenant, hour, trace_id, day"""


FRAGMENTS: Final = {"event_summaries": _EVENT_SUMMARIES, "span_summaries": _SPAN_SUMMARIES}
"""Values of `$name` in the `.sql` files."""
