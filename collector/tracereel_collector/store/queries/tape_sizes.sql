-- Bytes of the root tapes of some runs.
SELECT trace_id, sum(length(payload) + content_bytes)
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)} AND event_type = 'agent.tape.recorded'
    AND has(
        arrayZip({trace_ids:Array(String)}, {emitter_ids:Array(String)}, {tape_ids:Array(String)}),
        (trace_id, toString(emitter_id), JSONExtractString(payload, 'tape_id'))
    )
GROUP BY trace_id
