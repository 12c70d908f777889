-- Some events of a run as they were sent.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
    AND sequence_number IN {numbers:Array(UInt64)}
ORDER BY hlc, sequence_number
LIMIT 1 BY event_id
