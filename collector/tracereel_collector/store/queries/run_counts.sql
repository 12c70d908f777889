-- Number of events and basic figures of some runs, deduplicated.
SELECT
    countIf(event_type != 'agent.tape.recorded') AS total_events,
    arraySort(groupUniqArrayIf(1000)(agent_name, agent_name != '')) AS agents,
    if(total_events = 0, 0, toUnixTimestamp64Nano(min(timestamp))) AS began,
    if(total_events = 0, 0, toUnixTimestamp64Nano(max(timestamp))) AS ended,
    countIf(startsWith(event_type, 'agent.') AND position(event_type, 'failed') > 0) AS errors,
    countIf(startsWith(event_type, 'agent.') AND position(event_type, 'retry') > 0) AS retries,
    countIf(startsWith(event_type, 'agent.') AND position(event_type, 'fallback') > 0) AS fallbacks,
    countIf(startsWith(event_type, 'agent.') AND position(event_type, 'decision') > 0) AS decisions,
    anyIf(toString(pipeline_type), pipeline_type != '') AS pipeline,
    argMaxIf(toString(status), hlc, event_type = 'agent.pipeline.completed') AS last_status,
    countIf(event_type = 'agent.llm.called') AS calls,
    sumIf(llm_tokens_used, event_type = 'agent.llm.called') AS call_tokens,
    sumIf(llm_cost_usd, event_type = 'agent.llm.called') AS call_cost,
    sumIf(llm_tokens_used, event_type = 'agent.execution.completed') AS said_tokens,
    sumIf(llm_cost_usd, event_type = 'agent.execution.completed') AS said_cost,
    groupUniqArray(1000)(otel_trace_id) AS otel_trace_ids,
    countIf(event_type = 'agent.llm.called' AND isNull(llm_cost_usd) AND isNotNull(llm_tokens_used)) AS unpriced,
    groupUniqArrayIf(1000)([trace_id, session_id], session_id != '') AS sessions
FROM
(
    SELECT
        event_id, agent_name, timestamp, event_type, pipeline_type, status, hlc, llm_tokens_used,
        llm_cost_usd, otel_trace_id, trace_id, session_id
    FROM agent_events
    WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)}
    LIMIT 1 BY trace_id, event_id
)
