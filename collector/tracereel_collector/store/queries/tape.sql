-- Parts of one tape in order, the first arrival of each.
SELECT sequence_number, payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String} AND event_type = 'agent.tape.recorded'
    AND emitter_id = {emitter_id:String} AND JSONExtractString(payload, 'tape_id') = {tape_id:String}
    AND NOT (JSONExtractBool(payload, 'replayed') OR JSONExtractString(payload, 'records', 1, 'r') = 'replayed')
ORDER BY JSONExtractUInt(payload, 'part') AS part, ingested_at, sequence_number
LIMIT 1 BY part
LIMIT {limit:UInt32}
