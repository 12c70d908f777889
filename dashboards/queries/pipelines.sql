SELECT DISTINCT pipeline_type FROM agent_events
WHERE event_type = 'agent.pipeline.completed' AND $__timeFilter(ingested_at)
ORDER BY pipeline_type LIMIT 200
