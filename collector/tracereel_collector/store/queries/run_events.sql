-- Events of a run, or of one of its steps, in causal order, deduplicated. The caller decodes the
-- payloads: planning and reading the columns would take the engine longer than the whole query.
-- With one run (`=`, not `IN`) this is the storage order, so a page reads only what it needs.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
    -- The first page skips the comparison, which is a fifth of the cost of 50 events.
    AND (({after_position:UInt64} = 0 AND {after_number:UInt64} = 0)
        OR (hlc, sequence_number) > ({after_position:UInt64}, {after_number:UInt64}))
    AND ({tapes:Bool} OR event_type != 'agent.tape.recorded')
    AND ({step_id:String} = '' OR span_id = {step_id:String} OR event_id = {step_id:String})
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
LIMIT {limit:UInt32}
