-- First executions of agents in some runs, in order, with their results. Reads no payload.
SELECT
    trace_id,
    toString(agent_name) AS agent,
    multiIf(
        countIf(event_type = 'agent.execution.failed') > 0, 'failed',
        countIf(event_type = 'agent.execution.cancelled') > 0, 'cancelled',
        countIf(event_type = 'agent.execution.completed') > 0, 'success',
        'running') AS how
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)} AND agent_name != ''
  AND event_type IN ('agent.execution.started', 'agent.execution.completed', 'agent.execution.failed', 'agent.execution.cancelled')
GROUP BY trace_id, agent_name, if(span_id = '', execution_id, span_id)
ORDER BY trace_id, min(hlc), min(sequence_number)
LIMIT {most:UInt32} BY trace_id
