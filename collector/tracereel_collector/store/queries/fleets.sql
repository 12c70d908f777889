-- Heads of stored fleet replays, newest first: their ids begin with the time.
SELECT trace_id, sequence_number, payload
FROM agent_events
WHERE tenant = {tenant:String} AND startsWith(trace_id, 'fleet_') AND trace_id < {before:String}
    AND event_type = 'agent.tape.recorded' AND JSONExtractUInt(payload, 'part') = 0
ORDER BY trace_id DESC, ingested_at, sequence_number
LIMIT 1 BY trace_id
LIMIT {limit:UInt32}
