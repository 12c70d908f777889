SELECT
    pipeline_type AS pipeline,
    count() AS runs,
    countIf(status = 'failed') / count() AS failed,
    quantile(0.5)(duration_ms) AS p50,
    quantile(0.95)(duration_ms) AS p95,
    max(duration_ms) AS longest,
    avg(confidence) AS confidence
FROM agent_events
WHERE event_type = 'agent.pipeline.completed' AND $__timeFilter(ingested_at)
    AND pipeline_type IN (${pipeline:sqlstring})
GROUP BY pipeline ORDER BY runs DESC LIMIT 100
