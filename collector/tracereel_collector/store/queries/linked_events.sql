-- Events of several runs in causal order, deduplicated. Columns as in `run_events.sql`.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {trace_ids:Array(String)}
    -- The first page skips the comparison, which is a fifth of the cost of 50 events.
    AND (({after_position:UInt64} = 0 AND {after_number:UInt64} = 0)
        OR (hlc, sequence_number) > ({after_position:UInt64}, {after_number:UInt64}))
    AND ({tapes:Bool} OR event_type != 'agent.tape.recorded')
ORDER BY hlc, sequence_number
LIMIT 1 BY trace_id, event_id
LIMIT {limit:UInt32}
