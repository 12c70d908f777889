SELECT
    tenant,
    toStartOfHour($moment) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    min(timestamp) AS started,
    max(timestamp) AS ended,
    max(if(event_type IN ('agent.pipeline.started', 'agent.execution.started'),
        concat(if(event_type = 'agent.pipeline.started', '2', '1'), $earliest,
            if(pipeline_type = '', agent_name, pipeline_type), '\t', prompt), '')) AS opening,
    max(if(event_type IN ('agent.pipeline.completed', 'agent.execution.completed', 'agent.execution.failed', 'agent.execution.cancelled'),
        concat(if(event_type = 'agent.pipeline.completed', '2', '1'), $latest,
            status), '')) AS closing,
    sum(toInt64(event_type = 'agent.pipeline.started')
        - toInt64(event_type = 'agent.pipeline.completed')) AS pipelines_open,
    sum(toInt64(event_type = 'agent.execution.started')
        - toInt64(event_type IN $closing)) AS executions_open,
    count() AS events,
    toUInt64(0) AS spans,
    countIf(event_type = 'agent.execution.failed') AS errors,
    countIf(event_type = 'agent.retry.attempted') AS retries,
    countIf(event_type = 'agent.fallback.triggered') AS fallbacks,
    countIf(event_type = 'agent.decision.recorded') AS decisions,
    countIf(event_type = 'agent.llm.called') AS model_calls,
    countIf(event_type = 'agent.tool.called') AS tool_calls,
    sumIf(ifNull(llm_tokens_used, 0), event_type = 'agent.llm.called') AS call_tokens,
    sumIf(ifNull(llm_tokens_used, 0), event_type IN $closing) AS execution_tokens,
    toUInt64(0) AS span_tokens,
    sumIf(nano_usd, event_type = 'agent.llm.called') AS call_nano_usd,
    sumIf(nano_usd, event_type IN $closing) AS execution_nano_usd,
    toInt64(0) AS span_nano_usd,
    min(ifNull(agent_events.confidence, 2)) AS confidence,
    max(agent_events.parent_trace_id) AS parent_trace_id,
    groupUniqArrayArray(16)(if(span_id = '' OR otel_trace_id = trace_id, [], [otel_trace_id]))
        AS otel_trace_ids,
    $tags AS tags,
    sumMap(unpriced) AS call_unpriced,
    $no_tokens AS span_unpriced
FROM
(
    SELECT
        * EXCEPT payload,
        $nano_usd AS nano_usd,$unpriced_columns
        left(multiIf(
            event_type = 'agent.pipeline.started', JSONExtractString(payload, 'user_prompt'),
            event_type = 'agent.execution.started', JSONExtractString(payload, 'input_summary'),
            ''), $max_prompt) AS prompt
    FROM agent_events
) AS agent_events
GROUP BY tenant, hour, trace_id, day
