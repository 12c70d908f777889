-- What was recorded of a run for its re-execution: the parts of its tapes in order, each once, as sent.
SELECT payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String} AND event_type = 'agent.tape.recorded'
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
LIMIT {limit:UInt32}
