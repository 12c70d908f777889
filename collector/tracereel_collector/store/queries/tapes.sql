-- Parts of several tapes in order, the first arrival of each.
SELECT trace_id, sequence_number, payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
    AND has(
        arrayZip({trace_ids:Array(String)}, {emitter_ids:Array(String)}, {tape_ids:Array(String)}),
        (trace_id, toString(emitter_id), JSONExtractString(payload, 'tape_id'))
    )
    AND NOT (JSONExtractBool(payload, 'replayed') OR JSONExtractString(payload, 'records', 1, 'r') = 'replayed')
ORDER BY trace_id, JSONExtractUInt(payload, 'part') AS part, ingested_at, sequence_number
LIMIT 1 BY trace_id, part
LIMIT {limit:UInt32}
