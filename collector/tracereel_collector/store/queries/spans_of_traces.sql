-- Spans of some traces, as far as their calls depend on them: from events and over OTLP, duplicates included.
-- Of several rows of one span the first is the one that counts.
SELECT *
FROM
(
    SELECT
        TraceId AS trace,
        SpanId AS span,
        ParentSpanId AS parent,
        toUnixTimestamp64Nano(Timestamp) AS began,
        began + toInt64(Duration) AS ended,
        ScopeName AS scope,
        toString(CallKind) AS kind,
        toString(ModelRequested) AS requested,
        toString(ModelServed) AS served,
        PromptTokens AS prompt,
        CompletionTokens AS completion,
        TotalTokens AS tokens,
        isNotNull(CostUsd) AS has_cost,
        StatusCode = 'Error' AS failed,
        ResponseId AS response_id,
        toString(AgentName) AS agent,
        false AS told,
        $span_nano_usd AS nano_usd,
        CAST($span_unpriced, 'Map(String, Int64)') AS unpriced,
        '' AS event,
        toString(IngestedAt) AS ingested,
        toUInt64(Duration > 0) AS rank,
        SequenceNumber AS number,
        Position AS position
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {ids:Array(String)} AND Source = 'otlp'
    UNION ALL
    SELECT
        otel_trace_id, span_id, parent_span_id,
        if(span_began > 0, span_began,
            toUnixTimestamp64Nano(timestamp) - toInt64(least(ifNull(duration_ms, 0), $max_duration)) * 1000000),
        if(span_began > 0, greatest(span_began, span_ended), toUnixTimestamp64Nano(timestamp)),
        'tracereel',
        transform(toString(event_type),
            ['agent.llm.called', 'agent.tool.called', 'agent.retrieval.completed', 'agent.pipeline.completed',
             'agent.step.completed', 'agent.retry.attempted'],
            ['llm', 'tool', 'retrieval', 'workflow', 'step', 'step'], 'agent'),
        model_requested, toString(llm_model), llm_prompt_tokens, llm_completion_tokens,
        coalesce(llm_tokens_used, llm_prompt_tokens + llm_completion_tokens),
        isNotNull(llm_cost_usd), status = 'failed', answer, toString(agent_name), true,
        nano_usd, CAST(unpriced, 'Map(String, Int64)'), event_id, toString(ingested_at), toUInt64(2), sequence_number,
        toUInt64(0)
    FROM
    (
        SELECT
            * EXCEPT payload,
            $event_nano_usd AS nano_usd,
            JSONExtractString(payload, 'llm_model_requested') AS model_requested,
            JSONExtractString(payload, 'response_id') AS answer
        FROM agent_events
        WHERE tenant = {tenant:String} AND otel_trace_id IN {ids:Array(String)} AND ($closes OR event_type = 'agent.llm.called')
    ) AS agent_events
)
ORDER BY trace, span, rank DESC, number DESC, position DESC
LIMIT {limit:UInt32}
