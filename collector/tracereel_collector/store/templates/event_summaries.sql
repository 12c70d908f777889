SELECT
    tenant,
    toStartOfHour($moment) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    fromUnixTimestamp64Nano(min(began_nano), 'UTC') AS started,
    fromUnixTimestamp64Nano(max(ended_nano), 'UTC') AS ended,
    toDateTime64(0, 9, 'UTC') AS arrived,
    max(if(rank = '' OR (rank >= '4' AND NOT endsWith(event_type, '.started')), '', concat(
        rank, if(rank >= '4', $earliest, $earliest_begun), called, '\t', prompt))) AS opening,
    max(if(rank = '' OR endsWith(event_type, '.started'), '', concat(
        rank, if(rank = '1', $earliest_begun, $latest), if(status = '', 'success', status)))) AS closing,
    max(if(rank = '' OR output = '', '', concat(rank, $latest, output))) AS answer,
    sum(toInt64(event_type = 'agent.pipeline.started')
        - toInt64(event_type = 'agent.pipeline.completed')) AS pipelines_open,
    sum(toInt64(event_type = 'agent.execution.started')
        - toInt64(event_type IN $closing)) AS executions_open,
    count() AS events,
    toUInt64(0) AS spans,
    toUInt64(0) AS own_spans,
    toUInt64(0) AS span_events,
    countIf(event_type = 'agent.execution.failed' OR failed_alone) AS errors,
    toInt64(0) AS span_errors,
    countIf(event_type = 'agent.pipeline.completed' AND status = 'failed') AS failed_pipelines,
    toUInt64(0) AS own_span_errors,
    countIf(event_type = 'agent.retry.attempted') AS retries,
    countIf(event_type = 'agent.fallback.triggered') AS fallbacks,
    countIf(event_type = 'agent.decision.recorded') AS decisions,
    countIf(event_type = 'agent.llm.called') AS model_calls,
    toInt64(0) AS span_calls,
    countIf(event_type = 'agent.tool.called') AS tool_calls,
    sumIf(ifNull(llm_tokens_used, 0), event_type = 'agent.llm.called') AS call_tokens,
    sumIf(ifNull(llm_tokens_used, 0), event_type IN $closing) AS execution_tokens,
    toInt64(0) AS span_tokens,
    sumIf(nano_usd, event_type = 'agent.llm.called') AS call_nano_usd,
    sumIf(nano_usd, event_type IN $closing) AS execution_nano_usd,
    toInt64(0) AS span_nano_usd,
    min(ifNull(agent_events.confidence, 2)) AS confidence,
    max(agent_events.parent_trace_id) AS parent_trace_id,
    groupUniqArrayArray(16)(if(span_id = '' OR otel_trace_id = trace_id, [], [otel_trace_id]))
        AS otel_trace_ids,
    $tags AS tags,
    sumMap(unpriced) AS call_unpriced,
    CAST($no_tokens, 'Map(String, Int64)') AS span_unpriced,
    toInt64(0) AS settled
FROM
(
    SELECT
        * EXCEPT payload,
        $nano_usd AS nano_usd,
        toUnixTimestamp64Nano(timestamp) AS nano,
        event_type IN $calls AS is_call,
        span_began > 0 AND span_ended >= span_began AS is_exact,
        multiIf(is_exact, least(nano, span_began),
            is_call, nano - toInt64(least(ifNull(duration_ms, 0), $max_duration)) * 1000000, nano) AS began_nano,
        if(is_exact, greatest(nano, span_ended), nano) AS ended_nano,
        -- Of what a run has its name and its status: see query/run/identity.py, which has the same rules.
        multiIf(
            event_type IN $pipelines, '5', event_type IN $executions, '4',
            is_call AND parent_span_id = '', '3', is_call, '1', '') AS rank,
        multiIf(
            rank >= '4', if(pipeline_type = '', toString(agent_name), toString(pipeline_type)),
            event_type = 'agent.llm.called', toString(span_name),
            replaceRegexpOne(toString(span_name), '$operation', '')) AS called,
        is_call AND status = 'failed' AND agent_name = '' AND JSONExtractString(
            if(event_type = 'agent.step.completed' AND status = 'failed' AND agent_name = '', payload, ''),
            'step_type') NOT IN $attempts AS failed_alone,
        left(multiIf(
            event_type = 'agent.pipeline.started', JSONExtractString(payload, 'user_prompt'),
            event_type = 'agent.execution.started', JSONExtractString(payload, 'input_summary'),
            ''), $max_prompt) AS prompt,
        left(JSONExtractString(if(rank < '3' OR endsWith(event_type, '.started'), '', payload), 'output_summary'),
            $max_prompt) AS output
    FROM agent_events$local
    -- Parts of a tape are neither shown nor counted.
    WHERE event_type != 'agent.tape.recorded'
) AS agent_events
GROUP BY tenant, hour, trace_id, day
