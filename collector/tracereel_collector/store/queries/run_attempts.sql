-- Events that decide how attempts and fallbacks ended, from a place in some runs on, in causal order,
-- deduplicated. Columns as in `run_events.sql`.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND hlc >= {since:UInt64}
    AND (event_type IN ('agent.execution.completed', 'agent.execution.failed', 'agent.execution.cancelled',
            'agent.retry.attempted', 'agent.fallback.triggered', 'agent.pipeline.completed')
        OR (event_type IN ('agent.step.completed', 'agent.llm.called', 'agent.tool.called',
                'agent.retrieval.completed')
            AND (JSONExtractString(payload, 'step_type') IN ('attempt', 'retry', 'fallback')
                OR JSONExtractInt(payload, 'attempt') > 1)))
ORDER BY hlc, sequence_number
LIMIT 1 BY trace_id, event_id
LIMIT {limit:UInt32}
