SELECT
    $__timeInterval(timestamp) AS time,
    quantile(0.5)(duration_ms) AS p50,
    quantile(0.95)(duration_ms) AS p95
FROM agent_events
WHERE event_type = 'agent.pipeline.completed' AND $__timeFilter(ingested_at)
    AND pipeline_type IN (${pipeline:sqlstring})
GROUP BY time ORDER BY time
