-- The events of a run in causal order, each once; or those of one step. Decoding them is left to the
-- reader: the engine would take longer to read the columns, let alone to plan that, than to answer.
-- Of one run (`=`, not `IN`) they are stored in this order: a page reads no further than it must.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
    AND (hlc, sequence_number) > ({after_position:UInt64}, {after_number:UInt64})
    AND ({step_id:String} = '' OR span_id = {step_id:String} OR event_id = {step_id:String})
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
LIMIT {limit:UInt32}
