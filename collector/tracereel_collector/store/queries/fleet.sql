-- Parts of one stored fleet replay in order, the first arrival of each.
SELECT sequence_number, payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {fleet_id:String} AND event_type = 'agent.tape.recorded'
ORDER BY JSONExtractUInt(payload, 'part') AS part, ingested_at, sequence_number
LIMIT 1 BY part
LIMIT {limit:UInt32}
