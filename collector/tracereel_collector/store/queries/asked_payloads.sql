-- Some events of several runs as they were sent.
SELECT trace_id, sequence_number, payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)} AND sequence_number IN {numbers:Array(UInt64)}
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
