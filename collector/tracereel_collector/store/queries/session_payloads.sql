-- Some events of some runs as they were sent, by number.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)}
    AND sequence_number IN {numbers:Array(UInt64)}
LIMIT 1 BY sequence_number
