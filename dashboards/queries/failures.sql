SELECT
    timestamp AS time, agent_name AS agent, error_category AS category, error_type AS error,
    JSONExtractString(payload, 'error_message') AS message,
    JSONExtractString(payload, 'failed_at_stage') AS stage,
    duration_ms AS lasted, trace_id AS run
FROM agent_events
WHERE event_type = 'agent.execution.failed' AND $__timeFilter(ingested_at)
ORDER BY timestamp DESC LIMIT 200
