-- Where the time of a pipeline goes: its agents, over the runs of that pipeline.
SELECT
    runs.pipeline AS pipeline,
    steps.agent_name AS agent,
    count() AS executions,
    sum(steps.duration_ms) / any(runs.total_ms) AS share,
    quantile(0.5)(steps.duration_ms) AS p50,
    quantile(0.95)(steps.duration_ms) AS p95,
    countIf(steps.status = 'failed') AS failed
FROM
(
    SELECT trace_id, agent_name, duration_ms, status
    FROM agent_events
    WHERE event_type IN ('agent.execution.completed', 'agent.execution.failed', 'agent.execution.cancelled')
        AND $__timeFilter(ingested_at)
) AS steps
INNER JOIN
(
    SELECT trace_id, pipeline_type AS pipeline, sum(duration_ms) OVER (PARTITION BY pipeline_type) AS total_ms
    FROM agent_events
    WHERE event_type = 'agent.pipeline.completed' AND $__timeFilter(ingested_at)
        AND pipeline_type IN (${pipeline:sqlstring})
) AS runs ON steps.trace_id = runs.trace_id
GROUP BY pipeline, agent ORDER BY pipeline, share DESC LIMIT 200
