-- The first and the last model call of recorded runs.
SELECT trace_id, argMin(sequence_number, hlc), argMax(sequence_number, hlc)
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)} AND event_type = 'agent.llm.called'
GROUP BY trace_id
