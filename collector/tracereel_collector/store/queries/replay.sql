-- One run in causal order, each event once; the payload is the event as it was sent. Parts of its tape
-- are no steps of it.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    JSONExtractString(payload, 'timestamp') AS time,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    event_type,
    agent_name,
    pipeline_type,
    status,
    duration_ms,
    llm_tokens_used,
    llm_cost_usd,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String} AND event_type != 'agent.tape.recorded'
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
LIMIT {limit:UInt32}
