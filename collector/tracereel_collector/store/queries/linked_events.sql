-- The events of several runs in causal order, each once; columns as in `run_events.sql`.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    event_id,
    event_type,
    trace_id,
    otel_trace_id,
    parent_trace_id,
    span_id,
    parent_span_id,
    request_id,
    session_id,
    user_id,
    execution_id,
    service,
    emitter_id,
    trace_seq,
    agent_name,
    pipeline_type,
    status,
    duration_ms,
    confidence,
    llm_provider,
    llm_model,
    llm_tokens_used,
    llm_prompt_tokens,
    llm_completion_tokens,
    llm_cost_usd,
    error_type,
    error_code,
    error_category,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)}
    AND (hlc, sequence_number) > ({after_position:UInt64}, {after_number:UInt64})
ORDER BY hlc, sequence_number
LIMIT 1 BY trace_id, event_id
LIMIT {limit:UInt32}
