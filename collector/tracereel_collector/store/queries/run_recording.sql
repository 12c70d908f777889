-- Recording mode and rate of a run, from the events of its outermost calls.
SELECT JSONExtractString(payload, 'recording') AS recording, JSONExtractFloat(payload, 'record_rate') AS rate
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
    AND (event_type IN ('agent.execution.started', 'agent.pipeline.started') OR parent_span_id = '')
    AND recording IN ('errors', 'sampled')
LIMIT 1
