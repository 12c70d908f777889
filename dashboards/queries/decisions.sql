SELECT
    timestamp AS time, agent_name AS agent, JSONExtractString(payload, 'decision_type') AS decision,
    confidence, JSONExtractString(payload, 'reasoning') AS reasoning, trace_id AS run
FROM agent_events
WHERE event_type = 'agent.decision.recorded' AND $__timeFilter(ingested_at) AND isNotNull(confidence)
ORDER BY confidence, timestamp DESC LIMIT 100
