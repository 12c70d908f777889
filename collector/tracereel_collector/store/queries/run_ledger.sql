-- Stored events of runs by emitter: numbers, claimed count, rows and distinct events.
-- Events without a number have an empty emitter.
SELECT
    trace_id,
    if(trace_seq = 0, '', toString(emitter_id)) AS emitter,
    count() AS stored,
    uniqExact(event_id) AS events,
    if(emitter = '', [], arraySort(groupUniqArray({most:UInt32})(trace_seq))) AS numbers,
    -- Few events have this field, and only those are decoded.
    max(if(position(payload, 'trace_event_count') = 0, NULL,
        JSONExtract(payload, 'trace_event_count', 'Nullable(UInt64)'))) AS told,
    toUnixTimestamp64Nano(min(timestamp)) AS first_at,
    toUnixTimestamp64Nano(max(timestamp)) AS last_at
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)}
  -- Results of a re-execution are stored with the run but do not belong to its events.
  AND NOT (event_type = 'agent.tape.recorded' AND trace_seq = 0)
GROUP BY trace_id, emitter
ORDER BY trace_id, emitter
