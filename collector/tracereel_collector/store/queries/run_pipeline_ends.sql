-- Closing events of some pipelines of some runs, deduplicated. Columns as in `run_events.sql`.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)}
    AND event_type = 'agent.pipeline.completed' AND span_id IN {span_ids:Array(String)}
LIMIT 1 BY trace_id, span_id
